use super::*;
use crate::figures::Figures;
use crate::plan::{Plan, Request};
use crate::samples::Class;
use crate::schedule::{Arrival, Schedule};
use core::time::Duration;

/// 900 responses of 1 to 900 µs in a second, 100 failures of which 40
/// timeouts; 90 of the responses are errors.
fn report(open: bool) -> Report {
    let mut plan = Plan::new("10.0.0.2:80".parse().unwrap(), Request::get("10.0.0.2", "/"));
    let mut figures = Figures { silos: 1, window: Duration::from_secs(1), rate: 900.0, ..Figures::default() };
    for n in 1..=900 {
        figures.latency.record(n * 1_000);
        figures.samples.lag.record(n * 10);
    }
    figures.samples.classes[Class::Success as usize] = figures.latency.clone();
    figures.connect.record(5_000_000);
    figures.counts.traffic.responses = 900;
    figures.counts.statuses.success = 810;
    figures.counts.errors.timeouts = 40;
    figures.counts.errors.reset = 60;
    figures.schedule.due = 1_200;
    if open {
        plan.arrival = Arrival::Open(Schedule::constant(1_200.0));
    }
    Report::new(&plan, &figures, None)
}

fn judge(text: &str) -> Judged {
    text.parse::<Objective>().unwrap_or_else(|why| panic!("{why}")).judge(&report(true))
}

#[test]
fn each_figure_is_compared_with_its_bound() {
    for (text, met) in [
        ("p50<452us", true),
        ("p50<449us", false),
        ("p99 < 1ms", true),
        ("p99<=0.8ms", false),
        ("p99.9<901us", true),
        ("p0<2us", true),
        ("p100<=900us", true),
        ("median<452us", true),
        ("mean<=452us", true),
        ("mean<449us", false),
        ("min<=1us", true),
        ("min<1us", false),
        ("max<=900us", true),
        ("max<900us", false),
        ("max>0.5ms", true),
        ("stdev<300us", true),
        ("lag99<9us", true),
        ("lag99<8us", false),
        ("connect50<6ms", true),
        ("connect50<5ms", false),
        ("errors<10.1%", true),
        ("errors<10%", false),
        ("errors<=10%", true),
        ("errors<=100", true),
        ("errors<100", false),
        ("errors=100", true),
        ("errors=10%", true),
        ("errors=0", false),
        ("timeouts<=4%", true),
        ("timeouts<40", false),
        ("notok<=19%", true),
        ("notok<190", false),
        ("rate>0.8k", true),
        ("rate>=900", true),
        ("rate>900", false),
        ("achieved>=75%", true),
        ("achieved>75%", false),
    ] {
        let judged = judge(text);
        assert_eq!(judged.met, met, "{judged}");
        assert!(judged.measured.is_some());
    }
}

#[test]
fn what_was_not_measured_is_not_met() {
    let plan = Plan::new("10.0.0.2:80".parse().unwrap(), Request::get("10.0.0.2", "/"));
    let empty = Report::new(&plan, &Figures::default(), None);
    for text in ["p99<1ms", "mean>1ns", "max<1s", "errors<1%", "connect99<1s", "lag99<1s", "achieved>1%"] {
        let judged = text.parse::<Objective>().unwrap().judge(&empty);
        assert!(!judged.met && judged.measured.is_none(), "{judged}");
    }
    assert!("errors<1".parse::<Objective>().unwrap().judge(&empty).met);
    // Nor does a closed loop have a schedule.
    for text in ["lag99<1s", "achieved>1%"] {
        assert!(!text.parse::<Objective>().unwrap().judge(&report(false)).met);
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    for bad in [
        "",
        "p99",
        "p99<",
        "<1ms",
        "p99=1ms",
        "p99<1",
        "p99<1m",
        "p101<1ms",
        "p-1<1ms",
        "p<1ms",
        "p9e1<1ms",
        "q99<1ms",
        "errors<101%",
        "errors<-1",
        "errors<0.1",
        "timeouts=0.5",
        "notok<1.001",
        "rate>10kk",
        "rate>1ms",
        "rate>inf",
        "mean<10%",
        "achieved>10",
        "p99<<1ms",
        "p99<1ms<2ms",
        "p99<.ms",
        "mean<NaNus",
    ] {
        let error = bad.parse::<Objective>().expect_err(bad);
        assert!(error.to_string().contains("p99<1ms"), "{error}");
    }
    let all = Objective::parse_list("p99<1ms, errors<0.1%,rate>10k").unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1], Objective { metric: Metric::ErrorShare, relation: Relation::Less, bound: 0.001 });
    assert_eq!(all[2].bound, 10_000.0);
    assert!(Objective::parse_list("p99<1ms,").is_err() && Objective::parse_list(&["max<1s"; 65].join(",")).is_err());
}

#[test]
fn an_objective_is_written_as_it_is_read() {
    for (text, written) in [
        ("p99.9<1ms", "p99.9 < 1.00 ms"),
        ("lag99<=50us", "lag99 <= 50.0 µs"),
        ("errors<0.1%", "errors < 0.1 %"),
        ("errors<10", "errors < 10"),
        ("rate>=10k", "rate >= 10.0 k/s"),
    ] {
        assert_eq!(text.parse::<Objective>().unwrap().to_string(), written);
    }
    // Of ten requests one failed, for which the report calls its figures none.
    assert_eq!(judge("max<1ms").to_string(), "max < 1.00 ms: 900 µs, met, which does not count");
    assert_eq!(judge("errors<10%").to_string(), "errors < 10 %: 10 %, not met");
}

/// Of a run in which nothing was measured nothing counts; where the generator was the limit, what failed does.
#[test]
fn what_is_met_in_a_result_that_is_none_does_not_count() {
    let judged = |report: &Report, text: &str| text.parse::<Objective>().expect(text).judge(report);
    let mut invalid = report(false);
    let reason = |spoils| Reason { trust: Trust::No, spoils, what: "", sentence: String::new() };
    invalid.verdict.reasons = vec![reason(Spoils::Rate)];
    assert!(judged(&invalid, "p99<1s").met && !judged(&invalid, "p99<1s").counts);
    assert!(judged(&invalid, "p99<1s").to_string().ends_with(", met, which does not count"));
    assert!(judged(&invalid, "errors<500").counts && !judged(&invalid, "rate>1").counts);
    invalid.verdict.reasons.push(reason(Spoils::All));
    assert!(!judged(&invalid, "errors<500").counts);
}
