"""Tests of `streamval.validation.masking`."""

from streamval.chunkers.tool import ToolChunk
from streamval.types import Chunk
from streamval.types.masks import Mask
from streamval.types.messages import ToolCall
from streamval.validation.masking import Masks, masked_chunk
from streamval.validation.release import ReleaseOrder
from streamval.validation.verdicts import Check

ONE, TWO = Chunk("One two", 0, 0, 7), Chunk("three four", 1, 8, 18, " ")


def test_a_mask_over_two_chunks_is_replaced_in_the_first():
    mask = [Mask(4, 13, "[x]")]
    first, second = masked_chunk(ONE, mask), masked_chunk(TWO, mask)
    assert (first.text, first.masked) == ("One [x]", True)
    assert (second.separator, second.text) == ("", " four")
    assert (second.start, second.end) == (8, 18)  # where the model wrote it
    assert masked_chunk(TWO, [Mask(0, 3, "[x]")]) is TWO


def test_chunks_that_were_held_get_the_masks_of_a_later_check():
    order = ReleaseOrder()
    assert order.check(Check(ONE, "unknown", covered=0)) == []
    released = order.check(Check(TWO, "pass", covered=18, masks=(Mask(4, 13, "[x]"),)))
    assert [chunk.separator + chunk.text for chunk in released] == ["One [x]", " four"]
    three = Chunk("five", 2, 19, 23, " ")
    assert order.check(Check(three, "pass", covered=23)) == [three]


def test_only_the_arguments_of_the_call_are_masked():
    call = ToolCall(1, "c1", "say", {"text": "me"}, '{"text": "me"}')
    end = ToolChunk("", 0, 0, 0, call=1, part="end", whole=call)
    mask = Mask(9, 13, '"[x]"', 1)
    assert masked_chunk(end, [mask]).whole.arguments == {"text": "[x]"}
    assert masked_chunk(end, [mask._replace(call=0)]) is end


def test_masks_of_a_run_are_kept_with_what_stands():
    masks = Masks()
    masks.add("text", [Mask(0, 3, "1"), Mask(4, 7, "2")])
    assert masks.over("text", "One two") == "1 2"
    assert masks.hidden("text", "One two") == [("One", "1"), ("two", "2")]
    masks.keep("text", 4)
    assert masks.over("text", "One two") == "1 two"
    masks.clear()
    assert masks.over("text", "One two") == "One two"
