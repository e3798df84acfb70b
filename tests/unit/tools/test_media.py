"""Types of files and checks of what comes attached."""

import pytest

from loom_ia.core.errors import Kind
from loom_ia.tools.media import (
    Attachment,
    AttachmentTooLargeError,
    AttachmentTypeError,
    AttachmentUnreadableError,
    Limits,
    TooManyAttachmentsError,
    extension_of,
    load_attachment,
    load_attachments,
    media_type_of,
)

FILES = {
    "image/jpeg": b"\xff\xd8\xff\xe0rest",
    "image/png": b"\x89PNG\r\n\x1a\nrest",
    "image/gif": b"GIF87arest",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
    "application/pdf": b"%PDF-1.7",
}
PNG = FILES["image/png"]


@pytest.mark.parametrize(("media_type", "data"), FILES.items())
def test_a_type_is_read_from_the_first_bytes(media_type, data):
    assert media_type_of(data) == media_type
    assert media_type.endswith(extension_of(media_type).replace("jpg", "jpeg"))


@pytest.mark.parametrize("data", [b"", b"\x89PN", b"RIFF\0\0\0\0WAVE", b"GIF", b"<svg/>"])
def test_other_bytes_have_no_type(data):
    assert media_type_of(data) is None


def test_a_type_that_is_not_known_has_the_neutral_extension():
    assert extension_of("text/plain") == "bin"


def test_a_file_is_loaded_whatever_its_name_says(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(PNG)
    assert load_attachment(path) == Attachment(PNG, "image/png", "photo.jpg")
    assert load_attachment(str(path)).name == "photo.jpg"
    assert load_attachment(PNG, name="x") == Attachment(PNG, "image/png", "x")


def test_a_file_of_the_largest_size_is_taken_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "p.png"
    path.write_bytes(PNG)
    assert load_attachment(path, Limits(max_bytes=len(PNG))).data == PNG
    for source in (path, PNG):
        with pytest.raises(AttachmentTooLargeError, match=f"{len(PNG)} bytes, at most"):
            load_attachment(source, Limits(max_bytes=len(PNG) - 1))


@pytest.mark.parametrize("data", [b"", b"plain", FILES["application/pdf"]])
def test_a_content_that_is_no_image_is_refused_by_default(data):
    with pytest.raises(AttachmentTypeError, match="GIF, JPEG, PNG, WEBP") as caught:
        load_attachment(data, name="a.png")
    assert caught.value.kind is Kind.INVALID


def test_other_types_can_be_accepted():
    limits = Limits(accepted=frozenset({"application/pdf"}))
    assert load_attachment(b"%PDF-1.7", limits).media_type == "application/pdf"


@pytest.mark.parametrize("name", ["absent.png", ".", "a\0b", "x" * 300])
def test_a_path_that_cannot_be_read_says_which(tmp_path, name):
    with pytest.raises(AttachmentUnreadableError) as caught:
        load_attachment(tmp_path / name)
    assert str(tmp_path) in str(caught.value)


async def test_files_are_loaded_in_order_off_the_loop(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(PNG)
    loaded = await load_attachments([tmp_path / "b", PNG, tmp_path / "a"])
    assert [one.name for one in loaded] == ["b", "", "a"]
    assert await load_attachments([]) == ()


async def test_too_many_files_are_refused_before_any_is_read():
    with pytest.raises(TooManyAttachmentsError, match="3 attachments, at most 2"):
        await load_attachments(["absent"] * 3, Limits(max_files=2))
    with pytest.raises(TooManyAttachmentsError):
        await load_attachments([PNG] * 11)
