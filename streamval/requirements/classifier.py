"""`classifier`: a requirement from any function that gives a text a label or a score."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from numbers import Real
from typing import Any, TypeAlias

from streamval.aio.tasks import in_thread
from streamval.errors import UsageError, ValidatorError
from streamval.requirements.base import Requirement
from streamval.requirements.chunk_rule import ChunkRule, failed
from streamval.types.results import PASS, PartialValidationResult

Refuse: TypeAlias = "AbstractSet[str] | Mapping[str, float] | float"


FEW = 8
"""Answers up to this many may be labels of one text that happens to have as many characters."""


class _Batch:
    """Calls a function on a thread, with all texts that wait for it at that time.

    It has no task: the caller that gets the lock classifies the texts of all callers.
    """

    def __init__(self, fn: Callable[[list[str]], Sequence[Any]], limit: int) -> None:
        self._fn = fn
        self._limit = limit
        self._waiting: list[tuple[str, asyncio.Future[Any]]] = []
        self._lock = asyncio.Lock()

    def __copy__(self) -> _Batch:
        return _Batch(self._fn, self._limit)

    async def __call__(self, text: str) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, answer))
        try:
            async with self._lock:
                while not answer.done():
                    await self._work()
        finally:
            if not answer.done():  # cancelled
                answer.cancel()
        return answer.result()

    async def _work(self) -> None:
        """Classify the texts that have waited the longest."""
        wanted = [(text, answer) for text, answer in self._waiting if not answer.done()]
        batch, self._waiting = wanted[: self._limit], wanted[self._limit :]
        try:
            found = _by_text(await in_thread(self._fn, [text for text, _ in batch]))
            if len(found) != len(batch):
                raise ValidatorError(
                    f"the classifier gave {len(found)} answers for {len(batch)} texts"
                )
        except Exception as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
        except (
            BaseException
        ):  # cancelled: the next caller with the lock classifies the others again
            self._waiting = [one for one in batch if not one[1].done()] + self._waiting
            raise
        else:
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)


class Classifier(ChunkRule):
    """A requirement that classifies each chunk. Made by `classifier`."""

    judges = str

    def __init__(self, batch: _Batch, refuse: Refuse, description: str, **options: Any) -> None:
        super().__init__(description, **{"max_concurrency": 16, "check_only": True, **options})
        self._batch = batch
        self._refuse = refuse

    def __copy__(self) -> Classifier:
        twin: Classifier = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._batch = copy(self._batch)
        return twin

    async def check(self, chunk: str) -> PartialValidationResult:
        """Classify the chunk, together with the other chunks that wait."""
        answer = await self._batch(chunk)
        if isinstance(answer, (list, tuple)) and len(answer) == len(chunk) > FEW:
            raise ValidatorError(
                f"{self.name!r}: the classifier gave an answer for each of {len(chunk)} characters; "
                "a function that takes a list of texts needs batched=True"
            )
        for label, score in _labels(answer):
            if self._is_refused(label, score):
                said = f"{label!r}" if label else "too high"
                scored = "" if score is None else f" ({score:.2f})"
                return failed(f"it is classified as {said}{scored}", score)
        return PASS

    def _is_refused(self, label: str, score: float | None) -> bool:
        refuse = self._refuse
        if not label and isinstance(refuse, (AbstractSet, Mapping)):
            raise ValidatorError(
                f"{self.name!r}: the classifier answered a bare score, {score}, and refuse= names "
                "labels; for bare scores, give refuse= the lowest score that fails"
            )
        if isinstance(refuse, Mapping):
            return label in refuse and (score is None or score >= refuse[label])
        if isinstance(refuse, AbstractSet):
            return label in refuse
        return score is not None and score >= refuse


def _by_text(answers: Any) -> list[Any]:
    """Return the answers in a list; Detoxify gives a list of scores a label."""
    if not isinstance(answers, Mapping):
        return list(answers)
    return [
        dict(zip(answers, scores, strict=True)) for scores in zip(*answers.values(), strict=True)
    ]


def _labels(answer: Any) -> list[tuple[str, float | None]]:
    """Return a classifier's answer as labels with their scores."""
    match answer:
        case str():
            return [(answer, None)]
        case bool():
            pass
        case Real():
            return [("", _score(answer))]
        case {"label": str(label), "score": Real() as score}:
            return [(label, _score(score))]
        case (str(label), Real() as score):
            return [(label, _score(score))]
        case Mapping() if answer and all(isinstance(score, Real) for score in answer.values()):
            return [(str(label), _score(score)) for label, score in answer.items()]
        case list() | tuple() if not any(isinstance(one, Real) for one in answer):
            return [label for one in answer for label in _labels(one)]  # several labels, or none
    raise ValidatorError(
        f"a classifier answered {answer!r:.200}; return a label, a score, (label, score), "
        "{'label': …, 'score': …}, {label: score}, or a list of labels; a function that takes a list "
        "of texts needs batched=True"
    )


def _score(score: Real) -> float:
    if math.isnan(number := float(score)):
        raise ValidatorError("a classifier answered NaN, which is not a score")
    return number


def classifier(
    fn: Callable[[Any], Any],
    *,
    refuse: Refuse,
    description: str | None = None,
    batched: bool = False,
    batch_size: int = 16,
    **options: Any,
) -> Requirement:
    """Make a requirement of a classifier: any function from a text to a label or a score.

    It runs on a thread, so that it does not block the event loop. Chunks that wait at the same time
    are classified together. Chunks overlap, so `fn` must not keep state of the stream.

    Args:
        fn: From a chunk's text to a label, a score, ``(label, score)``, ``{"label": …, "score": …}``,
            ``{label: score}`` as Detoxify's, or a list of labels; with `batched`, from a list of texts to
            a list of such answers, or to ``{label: [score, …]}``.
        refuse: The labels that fail, as a set or as a mapping to the lowest score that fails; for bare
            scores, the lowest score that fails.
        description: What is required, in words; by default made of `refuse`.
        batched: Whether `fn` takes a list of texts, as a Hugging Face pipeline can.
        batch_size: The largest number of texts in a call.

    Returns:
        A requirement that is valid when no chunk failed.

    Raises:
        UsageError: If `fn` is not callable, or `refuse` is empty or of another kind.

    Example:
        >>> rude = classifier(lambda text: "rude" if "fool" in text else "fine", refuse={"rude"})
        >>> import asyncio
        >>> from streamval import Pipeline, ScriptedBackend
        >>> pipeline = Pipeline(ScriptedBackend("Good day. You fool. Bye."), requirements=[rude])
        >>> asyncio.run(pipeline.run("Greet.")).text
        'Good day.'

        A Hugging Face pipeline, and Presidio::

            toxic = transformers.pipeline("text-classification", "unitary/toxic-bert")
            sv.classifier(toxic, refuse={"toxic": 0.8}, batched=True)

            analyzer = presidio_analyzer.AnalyzerEngine()
            def entities(text):
                return [(r.entity_type, r.score) for r in analyzer.analyze(text, language="en")]
            sv.classifier(entities, refuse={"PERSON": 0.6, "LOCATION": 0.6})

        Llama Guard and Granite Guardian are models: ask them as judges, through a backend of their own::

            guard = sv.OpenAIBackend("meta-llama/Llama-Guard-3-8B", base_url=…)
            safe = sv.LLMaJRequirement("…", output_to_bool=lambda said: said.strip().startswith("safe"))
            sv.Pipeline(model, requirements=[safe], validation_backend=guard)
    """
    if not callable(fn):
        raise UsageError(f"classifier needs a function of a text, not {type(fn).__name__}")
    limits = refuse.values() if isinstance(refuse, Mapping) else (refuse,)
    labels = refuse if isinstance(refuse, (AbstractSet, Mapping)) else ()
    if not (labels if isinstance(refuse, AbstractSet) else limits and all(map(_is_limit, limits))):
        raise UsageError(
            "refuse= must be labels that fail ({'toxic'}), labels with their lowest scores "
            f"({{'toxic': 0.8}}), or a lowest score, not {refuse!r}"
        )
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, not {batch_size}")
    if description is None:
        description = f"not {' or '.join(sorted(labels))}" if labels else f"scores below {refuse:g}"
    call = fn if batched else lambda texts: [fn(text) for text in texts]
    return Classifier(_Batch(call, batch_size), refuse, description, **options)


def _is_limit(limit: object) -> bool:
    return isinstance(limit, Real) and not isinstance(limit, bool) and not math.isnan(limit)
