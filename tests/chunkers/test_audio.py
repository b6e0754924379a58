"""Tests of `streamval.chunkers.audio`."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamval.chunkers import FrameChunker, SilenceChunker
from streamval.errors import DeltaTypeError, UsageError
from streamval.types.audio import PCM
from tests.support.voice import silence, speech


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0])
def test_a_frame_ends(seconds):
    with pytest.raises(UsageError):
        FrameChunker(seconds)


VOICE = speech(4.0)


MADE = {
    "frames": lambda: FrameChunker(0.25),
    "frames-24-bit-like": lambda: FrameChunker(0.01, sample_rate=8000, width=4, channels=3),
    "silence": lambda: SilenceChunker(),
    "silence-bounded": lambda: SilenceChunker(max_seconds=0.5),
    "silence-stereo": lambda: SilenceChunker(channels=2, sample_rate=8000),
}


def cut(chunker, deltas):
    chunks = []
    for delta in deltas:
        chunks += chunker.feed(delta)
    return chunks + chunker.flush()


@pytest.mark.parametrize("name", MADE)
@given(sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=6), at=st.integers(0, 2 * 16000))
@settings(max_examples=25)
def test_the_same_chunks_however_the_bytes_are_sliced_each_verbatim(name, sizes, at):
    sound = VOICE[at : at + 50_001]  # an odd number, which ends within a sample
    whole = cut(MADE[name](), [sound])
    deltas, start = [], 0
    while start < len(sound):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(sound[start : start + size])
        start += size
    assert cut(MADE[name](), deltas) == whole
    assert b"".join(chunk.text for chunk in whole) == sound
    for index, chunk in enumerate(whole):
        assert (chunk.index, chunk.text) == (index, sound[chunk.start : chunk.end])


@pytest.mark.parametrize("name", MADE)
def test_bytes_one_by_one(name):
    sound = VOICE[:3001]
    assert cut(MADE[name](), [sound[n : n + 1] for n in range(len(sound))]) == cut(
        MADE[name](), [sound]
    )


def test_frames_are_of_a_fixed_duration():
    chunks = cut(FrameChunker(0.5, sample_rate=8000, channels=2), [bytes(8000 * 4 + 3)])
    assert [PCM(8000, 2, 2).seconds(len(chunk.text)) for chunk in chunks] == [0.5, 0.5, 3 / 32000]


def test_segments_end_at_pauses():
    sound = silence(0.5) + speech(0.9, pause=5) + silence(0.6) + speech(0.9, pause=5) + silence(0.6)
    chunks = cut(SilenceChunker(0.3), [sound])
    assert len(chunks) == 3
    seconds = [PCM().seconds(chunk.end) for chunk in chunks]
    assert 1.4 < seconds[0] < 1.9  # the first word ends at 1.3 or so, the pause tells
    assert 2.9 < seconds[1] < 3.4
    assert PCM().level(chunks[2].text) < -60


def test_only_bounded_does_a_voice_without_pauses_come_in_pieces():
    sound = speech(3.0, word=10)
    assert len(cut(SilenceChunker(), [sound])) == 1
    chunks = cut(SilenceChunker(max_seconds=1.0), [sound])
    assert len(chunks) in (3, 4)
    assert all(PCM().seconds(len(chunk.text)) <= 1.0 for chunk in chunks)


def test_a_copy_goes_on_by_itself():
    original = FrameChunker(0.25)
    original.feed(VOICE[:5001])
    twin = copy.copy(original)
    assert cut(twin, [VOICE[5001:9000]]) == cut(original, [VOICE[5001:9000]])
    fresh = SilenceChunker()
    assert cut(copy.copy(fresh), [VOICE]) == cut(copy.deepcopy(fresh), [VOICE])
    fresh.feed(VOICE)
    with pytest.raises(UsageError, match="cannot be copied"):
        copy.copy(fresh)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("delta", ["text", None, 7])
def test_what_is_no_sound_is_a_clear_error(name, delta):
    with pytest.raises(DeltaTypeError, match="where sound is expected"):
        MADE[name]().feed(delta)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FrameChunker(0), "longer than 0"),
        (lambda: FrameChunker(width=3), "width must be"),
        (lambda: FrameChunker(sample_rate=0), "at least 1"),
        (lambda: SilenceChunker(sample_rate=44100), "resample, or use a FrameChunker"),
        (lambda: SilenceChunker(width=1), "not 16000 of 1"),
        (lambda: SilenceChunker(0), "above 0"),
        (lambda: SilenceChunker(aggressiveness=4), "0 to 3"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()
