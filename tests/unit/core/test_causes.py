"""What the system refused is said in the reader's language."""

import errno
import os

import pytest

from loom_ia.core.causes import cause


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EACCES, errno.ENOSPC, errno.EISDIR])
def test_a_cause_that_people_meet_is_in_words_that_translate(code):
    text = cause(OSError(code, os.strerror(code)))
    assert not text.params
    assert os.strerror(code).lower() not in str(text).lower()


def test_a_rare_cause_keeps_the_words_of_the_system():
    assert "Broken pipe" in str(cause(OSError(errno.EPIPE, "Broken pipe")))
    assert "odd" in str(cause(OSError("odd")))
