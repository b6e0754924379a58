"""A voice, synthesised: syllables of a buzzing tone, with pauses between the words."""

from __future__ import annotations

import math
from array import array

RATE = 16000


def speech(seconds, *, word=0.8, pause=0.5, loudness=0.4, channels=1):
    """Bytes of PCM, 16 bits."""
    samples = array("h")
    for n in range(int(seconds * RATE)):
        at = n / RATE
        in_word = at % (word + pause) < word
        syllable = 0.55 + 0.45 * math.sin(2 * math.pi * 4 * at)
        pitch = 2 * math.pi * (120 + 15 * math.sin(2 * math.pi * 3 * at)) * at
        # Harmonics of a vowel, louder about 700 and 1,200 hertz.
        tone = sum(
            math.sin(k * pitch) / (1 + min(abs(120 * k - 700), abs(120 * k - 1200)) / 150)
            for k in range(1, 20)
        )
        value = loudness * syllable * tone / 4 if in_word else 0.0
        samples.extend([max(-32767, min(32767, int(value * 32767)))] * channels)
    return samples.tobytes()


def silence(seconds):
    return bytes(int(seconds * RATE) * 2)


def clipped(sound):
    """The same, far too loud."""
    samples = array("h", sound)
    return array("h", (max(-32767, min(32767, sample * 30)) for sample in samples)).tobytes()


def sliced(sound, size):
    return [sound[n : n + size] for n in range(0, len(sound), size)]
