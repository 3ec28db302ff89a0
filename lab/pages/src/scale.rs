//! Axes: how values become places, and round values to stand on them.

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AxisScale {
    /// Equal steps, from zero on.
    Linear,
    /// Equal steps, over what there is.
    Near,
    /// Each step is a factor; values of zero and below are left out.
    Logarithmic,
    /// Shares by [`nines`]: each nine is as wide as the one before.
    Percentiles,
}

/// How many nines a share has, and between: 0.9 is 1, 0.999 is 3 (log10(1 ÷ (1 − p))).
#[must_use]
pub fn nines(share: f64) -> f64 {
    (-(1.0 - share).log10()).max(0.0)
}

/// Whether a percentile of so many samples is one: at least ten lie beyond it.
#[must_use]
pub fn is_sound(share: f64, samples: f64) -> bool {
    (1.0 - share) * samples >= 10.0 - 1e-6
}

/// A number of nines as percentile.
#[must_use]
pub fn percentile(nines: f64) -> String {
    let text = format!("{:.*}", (nines.ceil() as usize).clamp(1, 9) + 1, 100.0 * (1.0 - 10_f64.powf(-nines)));
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// What is beyond was not measured, and leaves no room on an axis for what was.
const LIMIT: f64 = 1e24;

/// Longer labels are written by their power of ten.
const LABEL: usize = 14;

/// A value as an axis shows it.
pub(crate) fn label(format: fn(f64) -> String, value: f64) -> String {
    let text = format(value);
    if text.chars().count() > LABEL { format!("{value:.1e}") } else { text }
}

/// Lines across the drawing, about.
const TICKS: f64 = 6.0;

/// An axis over values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    from: f64,
    span: f64,
    scale: AxisScale,
}

impl AxisScale {
    /// Whether a value has a place.
    pub(crate) fn holds(self, value: f64) -> bool {
        value.abs() < LIMIT && (self != Self::Logarithmic || value > 0.0)
    }

    /// A value as far as its place goes.
    fn own(self, value: f64) -> f64 {
        if self == Self::Logarithmic { value.log10() } else { value }
    }
}

impl Range {
    /// From the smallest to the largest value; `None` without values.
    pub(crate) fn over(values: impl Iterator<Item = f64>, scale: AxisScale) -> Option<Self> {
        let places = values.filter(|value| scale.holds(*value)).map(|value| scale.own(value));
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut low, high) = places.fold(ends, |(low, high), own| (low.min(own), high.max(own)));
        if low > high {
            return None;
        }
        if matches!(scale, AxisScale::Linear | AxisScale::Percentiles) {
            low = low.min(0.0);
        }
        let span = if high > low { high - low } else { 1.0 };
        Some(Self { from: low, span, scale })
    }

    /// With so much more at its end, as a share.
    pub(crate) fn longer(self, share: f64) -> Self {
        Self { span: self.span * (1.0 + share), ..self }
    }

    /// With a little room at both ends, where it does not begin at zero.
    pub(crate) fn roomy(self) -> Self {
        let room = if self.from == 0.0 && self.scale != AxisScale::Logarithmic { 0.0 } else { 0.04 * self.span };
        Self { from: self.from - room, span: self.span + 1.5 * room.max(0.02 * self.span), ..self }
    }

    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = (self.scale.own(value) - self.from) / self.span;
        // The end of an interval may be below all that a logarithm has.
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    pub(crate) fn value(&self, place: f64) -> f64 {
        let own = self.from + place * self.span;
        if self.scale == AxisScale::Logarithmic { 10_f64.powf(own) } else { own }
    }

    /// Round values within it: 1, 2 and 5 times powers of ten.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let end = self.from + self.span;
        if self.scale == AxisScale::Percentiles {
            let whole = (1..=end.floor() as i32).map(f64::from);
            let named = [core::f64::consts::LOG10_2].into_iter().chain(whole);
            return named.filter(|place| (self.from..=end).contains(place)).collect();
        }
        if self.scale == AxisScale::Logarithmic {
            let decades = self.from.floor() as i32..=end.ceil() as i32;
            let all = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
            let ticks: Vec<f64> =
                all.filter(|value| (self.from - 1e-9..=end + 1e-9).contains(&value.log10())).collect();
            // Over many decades one line each is enough; within a part of one, equal steps say more.
            let whole = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-9;
            let many = ticks.len() as f64 > 2.0 * TICKS;
            if ticks.len() > 2 {
                return ticks.into_iter().filter(|value| !many || whole(value)).collect();
            }
        }
        let (low, high) = (self.value(0.0), self.value(1.0));
        let rough = (high - low) / TICKS;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        (first..=last).map(|n| n as f64 * step).collect()
    }
}
