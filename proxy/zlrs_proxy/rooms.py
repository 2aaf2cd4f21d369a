"""The rooms that a configuration makes; a reload makes new ones, the old end with their last request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlrs_proxy.access import Access
from zlrs_proxy.attempts import Attempts
from zlrs_proxy.forward import Forwarder
from zlrs_proxy.look import Look
from zlrs_proxy.pipeline import Pipeline
from zlrs_proxy.pool import Pool
from zlrs_proxy.recount import Recounter
from zlrs_proxy.rewrite import Rewriter
from zlrs_proxy.rules import Rules
from zlrs_proxy.upward import Upward

if TYPE_CHECKING:
    from zlrs_proxy.accounts import Accounts
    from zlrs_proxy.background import Background
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.decide import Decider
    from zlrs_proxy.flight import Flights
    from zlrs_proxy.health import Health
    from zlrs_proxy.limits import Limits
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.settings import Settings
    from zlrs_proxy.settle import Settler


class Plan:
    """Everything of a configuration that can be checked without a loop.

    Raises:
        SettingsError: A setting cannot be used.
    """

    def __init__(self, settings: Settings, clock: Clock, secret: bytes) -> None:
        self.settings = settings
        self.access = Access(settings)
        self.pool = Pool(settings, clock, secret)
        self.rules = Rules(settings, secret)
        self.rewriter = Rewriter(settings) if settings.rewrite.is_on else None
        self.recounter = Recounter(settings.recount_model) if settings.recount else None


class Rooms:
    """The pipeline of one configuration, and what ends with it. Made on the loop."""

    def __init__(
        self,
        plan: Plan,
        decider: Decider | None,
        settler: Settler | None,
        accounts: Accounts,
        limits: Limits,
        flights: Flights,
        background: Background,
        health: Health,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        settings = plan.settings
        self.pool = plan.pool
        self.in_flight = 0
        metrics.rules.allow("rule", (rule.name for rule in settings.rules))
        accounts.configure(
            has_limits=plan.access.limits_tokens, recount=settings.recount, log=settings.access_log
        )
        self._forwarder = Forwarder(settings)
        attempts = Attempts(settings, plan.pool, self._forwarder, metrics, clock)
        self._look = Look(settings, plan.pool, plan.rules, plan.recounter, metrics, clock)
        self._upward = Upward(settings, attempts, settler, accounts, flights, background, health, metrics)
        self.pipeline = Pipeline(
            settings,
            plan.pool,
            plan.access,
            limits,
            plan.rewriter,
            self._look,
            decider,
            self._upward,
            accounts,
            health,
            metrics,
            clock,
        )

    @property
    def is_busy(self) -> bool:
        """Whether a request or a call upstream of these rooms has not ended."""
        return bool(self.in_flight or self._upward.open_calls)

    async def close(self) -> None:
        """Close connections and end threads."""
        self._look.close()
        await self._forwarder.close()
