"""Which asks go past the graph although they could be answered from it: rules, and shares of cohorts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from zlrs.errors import ConfigurationError
from zlrs.patterns import Patterns
from zlrs_proxy.settings import SettingsError

if TYPE_CHECKING:
    from zlrs_proxy.settings import RuleSettings, Settings
    from zlrs_proxy.view import View

DEFAULT_COHORT = "default"
_SPACE = 2.0**64


class Rules:
    """The rules of a configuration.

    Shares are by fingerprint: an ask is always on the same side, in every process that has the same secret,
    and a larger share takes in everything that the smaller one had.

    Raises:
        SettingsError: A pattern cannot be used.
    """

    def __init__(self, settings: Settings, secret: bytes) -> None:
        self._rules = settings.rules
        self._ratio = settings.cache_ratio
        self._secret = secret
        self._patterned = [index for index, rule in enumerate(self._rules) if rule.pattern is not None]
        try:
            self._patterns = Patterns([self._rules[index].pattern or "" for index in self._patterned])
        except ConfigurationError as error:
            raise SettingsError(error.message) from error

    def __bool__(self) -> bool:
        return bool(self._rules or self._ratio)

    def reason(self, view: View, cohort: str | None) -> tuple[str, str]:
        """Why this ask goes past the graph, and by which rule; empty when it does not. O(patterns x text)."""
        if self._rules:
            hits = self._patterns.matches(view.last_user_text) if self._patterned else ()
            found = {self._patterned[hit] for hit in hits}
            for index, rule in enumerate(self._rules):
                if (rule.pattern is None or index in found) and self._applies(rule, view, cohort):
                    return "no_graph_rule", rule.name
        ratio = self._ratio.get(cohort or DEFAULT_COHORT, self._ratio.get(DEFAULT_COHORT, 1.0))
        if ratio < 1 and self._bucket("cache_ratio", view) >= ratio:
            return "cohort_ratio", ""
        return "", ""

    def _applies(self, rule: RuleSettings, view: View, cohort: str | None) -> bool:
        if rule.model is not None and not matches_name(rule.model, view.model):
            return False
        if rule.cohort is not None and rule.cohort != cohort:
            return False
        return rule.share >= 1 or self._bucket(rule.name, view) < rule.share

    def _bucket(self, purpose: str, view: View) -> float:
        """A number from 0 up to 1 that an ask always has for one purpose."""
        digest = hashlib.blake2b(key=self._secret, digest_size=8, person=b"zlrs bucket")
        for part in (
            purpose.encode(),
            view.model.encode(),
            view.last_user_text.encode("utf-8", "surrogatepass"),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
        return int.from_bytes(digest.digest(), "big") / _SPACE


def matches_name(wanted: str, name: str) -> bool:
    """Equality, or a common beginning where `wanted` ends with `*`."""
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
