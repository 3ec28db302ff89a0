//! What a run of the method is worth: what was done, held against what the RFC
//! says.

use super::ask::{Condition, Test};
use super::{Method, Settings, SizeResult};
use crate::modifiers::Modified;
use crate::pause::PauseFrames;
use crate::stream::RFC2544_SIZES;
use crate::verdict::Validity;

/// What the RFC asks for, in seconds (sections 23, 24 and 26).
const TRIAL: f64 = 60.0;
const LATENCY: f64 = 120.0;
const LATENCY_TIMES: u32 = 20;
const BURST: f64 = 2.0;
const BURST_TIMES: u32 = 50;
const DRAIN: f64 = 2.0;
const SETTLE: f64 = 5.0;

/// The verdict, with pause frames as they were seen.
#[must_use]
pub fn verdict(method: &Method, pause: &PauseFrames) -> Validity {
    let mut verdict = Validity::default();
    let settings = method.settings();
    // What a reader is to know before all else.
    if !method.is_over() {
        verdict.lacks("it was stopped");
    }
    if method.results().is_empty() {
        verdict.fails("nothing was measured: no size came to its end");
    }
    shortened(settings, &mut verdict);
    left_out(settings, &mut verdict);
    if settings.line_rate.is_none() {
        verdict.lacks("no line rate is known: what the tester can send stands in its place (--line-rate)");
    }
    for result in method.results() {
        let at = format!("{} bytes, {}", result.size, result.condition);
        for why in &result.lacks {
            verdict.lacks(format!("{at}: {why}"));
        }
        for why in &result.fails {
            verdict.fails(format!("{at}: {why}"));
        }
        modified(result, &at, &mut verdict);
        if let (Some(found), None) = (&result.throughput, result.throughput.as_ref().and_then(|found| found.upper))
            && let (Some(lower), None) = (found.lower, &found.open)
            && lower < result.theoretical * (1.0 - settings.width)
        {
            verdict.lacks(format!(
                "{at}: no rate that the tester can send failed: {lower:.0}/s is no bound of the device"
            ));
        }
    }
    let nothing_lost = method.results().iter().any(|result| result.rate().is_some());
    pause.judge(nothing_lost, &mut verdict);
    verdict
}

fn shortened(settings: &Settings, verdict: &mut Validity) {
    let tests = |test: Test| settings.tests.contains(&test);
    let mut short = |is_short: bool, told: String| {
        if is_short {
            verdict.lacks(told);
        }
    };
    let missing: Vec<String> =
        RFC2544_SIZES.iter().filter(|size| !settings.sizes.contains(size)).map(u16::to_string).collect();
    short(!missing.is_empty(), format!("sizes {} of section 9.1 are left out", missing.join(", ")));
    let of = |what: &str, seconds: f64, asked: f64, clause: &str| {
        format!("{what} of {seconds} s, and not of {asked} s ({clause})")
    };
    let (throughput, loss) = (settings.throughput, settings.loss);
    short(
        tests(Test::Throughput) && throughput < TRIAL,
        of("throughput: trials", throughput, TRIAL, "RFC 2544 section 24"),
    );
    short(tests(Test::Loss) && loss < TRIAL, of("loss: trials", loss, TRIAL, "RFC 2544 section 24"));
    let latency = settings.latency;
    short(
        tests(Test::Latency) && latency.seconds < LATENCY,
        of("latency: trials", latency.seconds, LATENCY, "RFC 2544 section 26.2"),
    );
    short(
        tests(Test::Latency) && latency.times < LATENCY_TIMES,
        format!("latency: {} trials, and not {LATENCY_TIMES} (RFC 2544 section 26.2)", latency.times),
    );
    let bursts = settings.bursts;
    short(
        tests(Test::BackToBack) && bursts.seconds < BURST,
        of("back-to-back: bursts", bursts.seconds, BURST, "RFC 2544 section 26.4"),
    );
    short(
        tests(Test::BackToBack) && bursts.times < BURST_TIMES,
        format!("back-to-back: {} searches, and not {BURST_TIMES} (RFC 2544 section 26.4)", bursts.times),
    );
    let recovery = settings.recovery.seconds;
    short(
        tests(Test::Recovery) && recovery < TRIAL,
        of("recovery: overloads", recovery, TRIAL, "RFC 2544 section 26.5"),
    );
    short(settings.drain < DRAIN, of("waits for stragglers", settings.drain, DRAIN, "RFC 2544 section 23"));
    short(settings.settle < SETTLE, of("pauses to settle", settings.settle, SETTLE, "RFC 2544 section 23"));
}

fn left_out(settings: &Settings, verdict: &mut Validity) {
    for test in Test::ALL {
        if !settings.tests.contains(&test) {
            verdict.lacks(format!("{test} is left out ({})", test.clause()));
        }
    }
    for (condition, told) in [
        (Condition::Networks, "256 networks are left out (RFC 2544 section 12; --networks)"),
        (Condition::Broadcast, "broadcast frames are left out (RFC 2544 section 11.1; --broadcast)"),
        (Condition::Management, "management queries are left out (RFC 2544 section 11.2; --management)"),
        (Condition::Routing, "routing updates are left out (RFC 2544 section 11.3; --routing)"),
        (Condition::Filters, "one filter is left out (RFC 2544 section 11.4; --filter-command)"),
        (Condition::ManyFilters, "25 filters are left out (RFC 2544 section 11.4; --many-filters-command)"),
    ] {
        if !settings.conditions.contains(&condition) {
            verdict.lacks(told);
        }
    }
}

/// What became of frames that took the places of the test's.
fn modified(result: &SizeResult, at: &str, verdict: &mut Validity) {
    let Some(of) = result.modified else { return };
    if of.sent == 0 {
        verdict.lacks(format!("{at}: none of them was sent"));
    }
    match result.condition {
        Condition::Management if of.answered == 0 => {
            verdict.lacks(format!(
                "{at}: none of {} queries was answered as it should be ({} wrongly): the device is not managed, and \
                 nothing is known of what that costs it (RFC 2544 section 11.2)",
                of.sent, of.wrong
            ));
        }
        Condition::Management if of.answered < of.sent => {
            verdict.names(format!("{at}: {} of {} queries were answered, {} wrongly", of.answered, of.sent, of.wrong));
        }
        Condition::Routing => routing(&of, at, verdict),
        _ => {}
    }
}

/// Whether routing updates were taken: frames to networks that they told of show it.
fn routing(of: &Modified, at: &str, verdict: &mut Validity) {
    let updates = of.sent - of.near - of.far;
    match of {
        Modified { near: 0, .. } => verdict.names(format!(
            "{at}: whether the device took the {updates} updates was not verified: that needs trials of more than 2 s, \
             both ways"
        )),
        Modified { near_came: 0, near, .. } => verdict.lacks(format!(
            "{at}: none of {near} frames came that went to networks which updates had told of: the device does not \
             take them, and nothing is known of what that costs it (RFC 2544 section 11.3)"
        )),
        Modified { near, near_came, far, far_came, .. } if near_came < near || *far_came > 0 => {
            verdict.names(format!(
                "{at}: {near_came} of {near} frames came that went to networks which updates had told of, and \
                 {far_came} of {far} to those that could not be reached any more: not all updates were taken"
            ));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Word;

    #[test]
    fn updates_count_as_taken_where_frames_show_it() {
        let of = |near, near_came, far_came| {
            let mut verdict = Validity::default();
            let modified = Modified { sent: 2 + 2 * near, near, near_came, far: near, far_came, ..Modified::default() };
            routing(&modified, "64 bytes", &mut verdict);
            (verdict.word, verdict.reasons.join("; "))
        };
        assert_eq!(of(2, 2, 0), (Word::Complete, String::new()));
        assert!(matches!(of(0, 0, 0), (Word::Complete, why) if why.contains("the 2 updates was not verified")));
        assert!(matches!(of(2, 0, 0), (Word::Partial, why) if why.contains("none of 2 frames came")));
        for (came, stale) in [(1, 0), (2, 1)] {
            assert!(matches!(of(2, came, stale), (Word::Complete, why) if why.contains("not all updates were taken")));
        }
    }
}
