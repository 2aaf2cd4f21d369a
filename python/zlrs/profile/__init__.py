"""What the parts of a model do, and which of them can be left out: the profiler and the masks."""

from __future__ import annotations

from zlrs.profile.bounds import bootstrap_upper, proportion_upper
from zlrs.profile.build import build, frontier, gain_of
from zlrs.profile.domains import Domain, read_domains
from zlrs.profile.harm import DomainHarm, harm_of
from zlrs.profile.parts import Part, candidates, without
from zlrs.profile.report import MaskReport, report_of
from zlrs.profile.search import Budget
from zlrs.profile.survey import Profile, survey

__all__ = [
    "Budget",
    "Domain",
    "DomainHarm",
    "MaskReport",
    "Part",
    "Profile",
    "bootstrap_upper",
    "build",
    "candidates",
    "frontier",
    "gain_of",
    "harm_of",
    "proportion_upper",
    "read_domains",
    "report_of",
    "survey",
    "without",
]
