"""Neutral contracts through which an application embeds any agent engine; it imports none."""

__all__: tuple[str, ...] = ()
