#!/usr/bin/env python3
"""Trials that CSIT's MLRsearch library needs on simulated devices.

Needs: pip install MLRsearch. Prints a line for each device: goals, frames per
second that it passes, chance that a second loses a frame, seed, trials, seconds
of them, lower bound of each goal.
"""

from MLRsearch import (AbstractMeasurer, Config, MeasurementResult,
                       MultipleLossRatioSearch, SearchGoal)

MASK = (1 << 64) - 1
GOALS = {
    "ndr": dict(loss_ratio=0.0, exceed_ratio=0.5, relative_width=0.005,
                initial_trial_duration=1.0, final_trial_duration=1.0, duration_sum=21.0),
    "pdr": dict(loss_ratio=0.005, exceed_ratio=0.5, relative_width=0.005,
                initial_trial_duration=1.0, final_trial_duration=1.0, duration_sum=21.0),
    "rfc2544": dict(loss_ratio=0.0, exceed_ratio=0.0, relative_width=0.005,
                    initial_trial_duration=1.0, final_trial_duration=60.0, duration_sum=60.0),
    "tst009": dict(loss_ratio=0.0, exceed_ratio=0.5, relative_width=0.005,
                   initial_trial_duration=1.0, final_trial_duration=60.0, duration_sum=120.0),
}


class Device(AbstractMeasurer):
    """Loses what is above its rate, and more by chance."""

    def __init__(self, rate, noise, state):
        self.rate, self.noise, self.state = rate, noise, state
        self.trials, self.seconds = 0, 0.0

    def unit(self):
        self.state ^= (self.state << 13) & MASK
        self.state ^= self.state >> 7
        self.state ^= (self.state << 17) & MASK
        return (self.state >> 11) / (1 << 53)

    def measure(self, intended_duration, intended_load):
        self.trials += 1
        self.seconds += intended_duration
        above = max(0.0, 1.0 - self.rate / intended_load)
        chance = 1.0 - (1.0 - self.noise) ** intended_duration
        loss = max(above, 1e-6) if self.unit() < chance else above
        # Counts are whole: many enough that a share of a millionth is one.
        offered = int(intended_load * intended_duration)
        lost = round(loss * offered) if loss else 0
        lost = max(lost, 1) if loss else 0
        return MeasurementResult(
            intended_duration=intended_duration, intended_load=intended_load,
            offered_count=offered, loss_count=lost, forwarding_count=offered - lost,
            offered_duration=intended_duration)


def run(names, rate, noise, state):
    config = Config()
    config.goals = [SearchGoal(**GOALS[name]) for name in names]
    config.min_load, config.max_load = 9001.0, 20e6
    config.search_duration_max = 1e9
    config.warmup_duration = 0.0
    device = Device(rate, noise, state)
    result = MultipleLossRatioSearch(config).search(device, lambda text: None)
    bounds = []
    for value in result.values():
        load = getattr(value, "relevant_lower_bound", None)
        bounds.append("-" if load is None else str(int(float(load))))
    print(",".join(names), int(rate), noise, state, device.trials, round(device.seconds), *bounds)


for names in (["ndr"], ["pdr"], ["ndr", "pdr"], ["rfc2544"], ["tst009"]):
    for rate in (23_450, 1_000_000, 7_700_000, 14_880_952, 19_800_000):
        run(names, float(rate), 0.0, 1)
for state in range(1, 11):
    for names in (["ndr"], ["ndr", "pdr"]):
        run(names, 5e6, 0.2, state)
