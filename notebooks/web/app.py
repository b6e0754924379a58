"""A web page that shows a run as it is judged: `uvicorn app:app` in this folder, then open /.

Needs fastapi and uvicorn. Put a model in the place of the scripted backend.
"""

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, StreamingResponse

import streamval as sv

calm = sv.stream_check(lambda text: (not text.endswith("!"), "it shouts"), "stay calm")
said = ["All is <b>well</b>. It rains. Help! Fire!", "All is fine. The sun is out."]
pipeline = sv.Pipeline(
    sv.ScriptedBackend(said, token_size=3, delay=0.01), requirements=[calm], retry=sv.Repair()
)
app = FastAPI()


@app.get("/")
async def page() -> HTMLResponse:
    """The page."""
    return HTMLResponse((Path(__file__).parent / "page.html").read_text())


@app.get("/answer")
async def answer(prompt: str) -> StreamingResponse:
    """A run as server-sent events; when the client goes, the model stops."""
    return StreamingResponse(sv.sse(pipeline.start(prompt)), media_type="text/event-stream")
