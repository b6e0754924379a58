"""How each kind of server continues the assistant's last message, where it can.

OpenAI's protocol does not define this, so servers have their own ways. Sources: LiteLLM's
"Pre-fix assistant messages" (Mistral, DeepSeek, Anthropic), vLLM's "OpenAI-compatible server"
(`continue_final_message`), llama.cpp's pull requests 13174 and 13608, OpenRouter's and Ollama's API
references.
"""

from __future__ import annotations

from typing import Any, Literal

Continues = Literal["message", "flag", "vllm"]
"""`"message"`: an assistant's message at the end is continued as it is (llama.cpp, Ollama, Anthropic,
OpenRouter). `"flag"`: only with ``"prefix": true`` in it (Mistral, DeepSeek). `"vllm"`: only with
`continue_final_message` in the request."""

_PROVIDERS: dict[str, Continues] = {
    "anthropic": "message",
    "openrouter": "message",
    "ollama": "message",
    "ollama_chat": "message",
    "llamafile": "message",
    "mistral": "flag",
    "codestral": "flag",
    "deepseek": "flag",
    "hosted_vllm": "vllm",
}

ALWAYS = frozenset(
    {"ollama", "ollama_chat", "llamafile", "hosted_vllm", "mistral", "codestral", "deepseek"}
)
"""Providers whose chat models all continue. For other providers it depends on the model."""


def way_of(provider: str) -> Continues:
    """Return how a provider continues a prefix, if its model can."""
    return _PROVIDERS.get(provider, "message")


def continued(messages: list[dict[str, Any]], prefix: str, way: Continues) -> dict[str, Any]:
    """Add a prefix to messages. Return the extra fields for the request's body.

    Example:
        >>> messages = [{"role": "user", "content": "Count."}]
        >>> continued(messages, "One,", "vllm"), messages[-1]
        ({'continue_final_message': True, 'add_generation_prompt': False}, {'role': 'assistant', 'content': 'One,'})
    """
    # Anthropic refuses whitespace at the end.
    last = {"role": "assistant", "content": prefix.rstrip()}
    messages.append({**last, "prefix": True} if way == "flag" else last)
    return {"continue_final_message": True, "add_generation_prompt": False} if way == "vllm" else {}
