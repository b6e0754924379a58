"""What Python clients make of the gateway: one line of JSON with an answer for each prompt.

A program of its own, as some of them cannot be installed beside each other, or beside us:
``python clients.py CLIENT URL MODEL PROMPT…``
"""

import json
import os
import sys

KEY = "not-a-key"


def openai_chat(url, model, prompt):
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    text, messages = "", [{"role": "user", "content": prompt}]
    with client.chat.completions.stream(model=model, messages=messages) as events:
        for event in events:
            text += event.delta if event.type == "content.delta" else ""
        whole = events.get_final_completion()
    return {"text": text, "reason": whole.choices[0].finish_reason}


def openai_responses(url, model, prompt):
    from openai import OpenAI

    client, text = OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0), ""
    with client.responses.stream(model=model, input=prompt) as events:
        for event in events:
            text += event.delta if event.type == "response.output_text.delta" else ""
            last = event
    whole = last.response
    if whole.error:
        raise RuntimeError(whole.error.message)
    return {
        "text": text,
        "reason": (whole.incomplete_details or whole).to_dict().get("reason") or whole.status,
    }


def anthropic_messages(url, model, prompt):
    from anthropic import Anthropic

    client, messages = (
        Anthropic(base_url=url, api_key=KEY, max_retries=0),
        [{"role": "user", "content": prompt}],
    )
    with client.messages.stream(model=model, max_tokens=99, messages=messages) as stream:
        text = "".join(stream.text_stream)
        return {"text": text, "reason": stream.get_final_message().stop_reason}


def agents_sdk(url, model, prompt, api="responses"):
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    kinds = {"responses": agents.OpenAIResponsesModel, "chat": agents.OpenAIChatCompletionsModel}
    agent = agents.Agent("a", model=kinds[api](model, client))
    return {"text": agents.Runner.run_sync(agent, prompt).final_output}


def agents_sdk_chat(url, model, prompt):
    return agents_sdk(url, model, prompt, "chat")


def langchain_chat(url, model, prompt, **options):
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(base_url=f"{url}/v1", api_key=KEY, model=model, max_retries=0, **options)
    return {"text": "".join(chunk.text for chunk in chat.stream(prompt))}


def langchain_responses(url, model, prompt):
    return langchain_chat(url, model, prompt, use_responses_api=True)


def pydantic_ai_chat(url, model, prompt, kind="OpenAIChatModel"):
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models import openai as models
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    chosen = getattr(models, kind)(model, provider=OpenAIProvider(openai_client=client))
    return {"text": Agent(chosen).run_sync(prompt).output}


def pydantic_ai_responses(url, model, prompt):
    return pydantic_ai_chat(url, model, prompt, "OpenAIResponsesModel")


def litellm_chat(url, model, prompt):
    import litellm

    asked = {
        "messages": [{"role": "user", "content": prompt}],
        "api_base": f"{url}/v1",
        "api_key": KEY,
    }
    stream = litellm.completion(model=f"openai/{model}", stream=True, max_retries=0, **asked)
    return {"text": "".join(chunk.choices[0].delta.content or "" for chunk in stream)}


def llama_index(url, model, prompt):
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    asked = OpenAILike(
        model=model, api_base=f"{url}/v1", api_key=KEY, is_chat_model=True, max_retries=0
    )
    said = asked.stream_chat([ChatMessage(role="user", content=prompt)])
    return {"text": "".join(chunk.delta or "" for chunk in said)}


def llm_command(url, model, prompt):
    from llm.default_plugins.openai_models import Chat

    return {
        "text": Chat("gateway", model_name=model, api_base=f"{url}/v1")
        .prompt(prompt, key=KEY)
        .text()
    }


def haystack(url, model, prompt):
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    pieces = []
    generator = OpenAIChatGenerator(
        api_base_url=f"{url}/v1",
        api_key=Secret.from_token(KEY),
        model=model,
        max_retries=0,
        streaming_callback=lambda chunk: pieces.append(chunk.content),
    )
    (reply,) = generator.run([ChatMessage.from_user(prompt)])["replies"]
    return {"text": reply.text, "reason": reply.meta.get("finish_reason")}


def dspy_lm(url, model, prompt):
    import dspy

    lm = dspy.LM(f"openai/{model}", api_base=f"{url}/v1", api_key=KEY, cache=False, num_retries=0)
    (said,) = lm(prompt)
    return {"text": said if isinstance(said, str) else said["text"]}


def mellea(url, model, prompt):
    from mellea import MelleaSession
    from mellea.backends.openai import OpenAIBackend

    session = MelleaSession(OpenAIBackend(model, base_url=f"{url}/v1", api_key=KEY))
    return {"text": str(session.chat(prompt).content)}


def instructor_chat(url, model, prompt, mode="TOOLS"):
    import instructor
    from openai import OpenAI
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    client = OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    asking = instructor.from_openai(client, mode=instructor.Mode[mode])
    city = asking.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        response_model=City,
        max_retries=0,
    )
    return {"text": city.name}


def instructor_responses(url, model, prompt):
    return instructor_chat(url, model, prompt, "RESPONSES_TOOLS")


CLIENTS = {
    "openai": openai_chat,
    "openai, Responses": openai_responses,
    "anthropic": anthropic_messages,
    "openai-agents": agents_sdk,
    "openai-agents, chat": agents_sdk_chat,
    "LangChain": langchain_chat,
    "LangChain, Responses": langchain_responses,
    "Pydantic AI": pydantic_ai_chat,
    "Pydantic AI, Responses": pydantic_ai_responses,
    "litellm": litellm_chat,
    "LlamaIndex": llama_index,
    "llm": llm_command,
    "Haystack": haystack,
    "DSPy": dspy_lm,
    "mellea": mellea,
    "instructor": instructor_chat,
    "instructor, Responses": instructor_responses,
}

if __name__ == "__main__":
    os.environ["DSPY_CACHEDIR"] = os.environ.get("DSPY_CACHEDIR", "/tmp")
    name, address, served, *prompts = sys.argv[1:]
    answers = {}
    for one in prompts:
        try:
            answers[one] = CLIENTS[name](address, served, one)
        except Exception as error:
            answers[one] = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(answers))
