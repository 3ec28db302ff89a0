//! What a run came to, as the exit code of the command that made it.

use load::{Ended, Judged, Report, Trust};

/// What an exit code says of a run, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ExitReason {
    /// It was measured, and what was to be met is met.
    Done = 0,
    /// It could not run, or what it measured could not be written.
    Failed = 1,
    /// An objective is missed, or no rate meets one.
    Missed = 3,
    /// There is nothing to go by.
    Nothing = 4,
    /// The figures are not of what was asked for: other programs spoilt too much of it, or a worker failed.
    Invalid = 5,
    /// The figures cannot be trusted, and were to be.
    Doubtful = 6,
    /// Ended by a signal, as shells have it for SIGINT.
    Interrupted = 130,
}

impl ExitReason {
    /// The exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Why it is none of success, in a sentence, where the report alone does not say it.
    #[must_use]
    pub fn sentence(self, report: &Report) -> Option<String> {
        Some(match self {
            Self::Nothing if report.traffic.responses > 0 => {
                "the server went away: no connection to it was left, and new ones were refused".to_owned()
            }
            Self::Nothing => "no response came in the measured window".to_owned(),
            Self::Missed => "an objective was missed".to_owned(),
            Self::Doubtful => report.verdict.to_string(),
            Self::Interrupted => "interrupted: the figures are of what was measured until then".to_owned(),
            Self::Done | Self::Failed | Self::Invalid => return None,
        })
    }
}

/// What a run came to: the first of the reasons that hold. `failures` are files that could not be written to their
/// end, and `strict` says that figures which cannot be trusted are one.
#[must_use]
pub fn exit_reason(report: &Report, judged: &[Judged], failures: u32, strict: bool) -> ExitReason {
    // Connections stay open to the end but for a server that is gone, or
    // where each request has its own.
    let lost = report.open == 0 && report.errors.failed_connects() > 0;
    let nothing = report.traffic.responses == 0 || lost;
    if report.ended == Ended::Interrupted {
        ExitReason::Interrupted
    } else if failures > 0 {
        ExitReason::Failed
    } else if nothing {
        ExitReason::Nothing
    } else if judged.iter().any(|judged| !judged.met) {
        ExitReason::Missed
    } else if strict && report.verdict.trust == Trust::No {
        ExitReason::Doubtful
    } else {
        ExitReason::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{Figures, Outside, Plan, Request};

    fn report(of: impl Fn(&mut Figures)) -> Report {
        let plan = Plan::new(([127, 0, 0, 1], 80).into(), Request::get("a", "/"));
        let mut figures = Figures::default();
        figures.counts.traffic.responses = 10;
        figures.open = 64;
        of(&mut figures);
        Report::new(&plan, &figures, Outside::default())
    }

    #[test]
    fn exit_codes_follow_the_help() {
        use ExitReason::{Done, Failed, Interrupted, Missed, Nothing};
        let rate = |text: &str| {
            let objective: load::Objective = text.parse().expect("an objective");
            vec![objective.judge(&report(|_| {}))]
        };
        assert_eq!(exit_reason(&report(|_| {}), &[], 0, false), Done);
        assert_eq!(exit_reason(&report(|_| {}), &[], 1, false), Failed);
        assert_eq!(exit_reason(&report(|_| {}), &rate("errors<1"), 0, false), Done);
        assert_eq!(exit_reason(&report(|_| {}), &rate("rate>1M"), 0, false), Missed);
        assert_eq!(exit_reason(&report(|f| f.counts.traffic.responses = 0), &rate("rate>1M"), 0, false), Nothing);
        let gone = |f: &mut Figures| (f.open, f.counts.errors.refused) = (0, 5);
        assert_eq!(exit_reason(&report(gone), &[], 0, false), Nothing);
        assert_eq!(exit_reason(&report(|f| f.counts.errors.refused = 5), &[], 0, false), Done, "it came back");
        assert_eq!(exit_reason(&report(|f| f.ended = Ended::Interrupted), &[], 1, false), Interrupted);
        assert_eq!([Failed, Missed, Nothing, Interrupted].map(ExitReason::code), [1, 3, 4, 130]);
    }
}
