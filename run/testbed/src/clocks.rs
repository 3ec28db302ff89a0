//! Which clock times frames: stamps of a NIC or of the kernel, where links have
//! them, or the processor's counter; whether that clock runs, before and while
//! it is relied on; and how far the clocks of two ports are apart.

use crate::AskedClock;
use cpu::Ticks;
use driver::StampedBy;
use figures::seconds;
use host::drivers::LinkSpec;
use packet::stamps::{self, Apart};
use packet::tester::{Pacing, Stream};
use ptp::{ClockSource, Course};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Before it is relied on, a clock is read so often, so far apart.
const FIRST_READINGS: u32 = 8;
const FIRST_APART: Duration = Duration::from_millis(15);

/// Clocks that stamp frames.
pub struct Clocks {
    by: StampedBy,
    /// Nothing else will do.
    insisted: bool,
    only_ptp: bool,
    /// Of tagged frames, and not of probes.
    tagged: bool,
    /// Which of the clocks each port's is.
    ports: Vec<usize>,
    sources: Vec<(String, ClockSource)>,
    state: Mutex<State>,
}

/// What is known of them so far.
struct State {
    courses: Vec<Course>,
    /// Why they are not used after all.
    given_up: Option<String>,
    unread: Option<String>,
}

/// The clock that was chosen, and why better ones were not.
pub struct Choice {
    /// `None`: the tester's own.
    pub clocks: Option<Clocks>,
    /// A reason for each that was looked at.
    pub refused: Vec<String>,
}

/// Which frames a latency is of.
pub enum Timed<'a> {
    /// Those of the probes among these.
    Probes(&'a mut [Stream]),
    /// One of a trial's own, which is tagged, if there is such a trial.
    Tagged(bool),
}

/// Chooses by what was asked for, has links stamp, and makes probes frames
/// that are stamped.
///
/// # Errors
/// If what was asked for cannot be had.
pub fn choose(asked: AskedClock, links: &mut [LinkSpec], timed: Timed<'_>, ticks: Ticks) -> Result<Choice, String> {
    let ways: &[StampedBy] = match asked {
        AskedClock::Auto => &[StampedBy::Nic, StampedBy::Kernel],
        AskedClock::Hardware => &[StampedBy::Nic],
        AskedClock::Kernel => &[StampedBy::Kernel],
        AskedClock::Tsc => &[],
    };
    let (streams, tagged): (&mut [Stream], bool) = match timed {
        Timed::Probes(streams) => (streams, false),
        Timed::Tagged(tagged) => (&mut [], tagged),
    };
    let any = tagged || probes(streams).next().is_some();
    if !any && !matches!(asked, AskedClock::Auto | AskedClock::Tsc) {
        let told = "stamps are of a probe's frames (--probe), or of those that a test of latency tags: there are none";
        return Err(format!("--clock: {told}"));
    }
    let mut refused = Vec::new();
    for &by in ways.iter().filter(|_| any) {
        match Clocks::open(by, links, (streams, tagged), ticks) {
            Ok(mut clocks) => {
                clocks.insisted = asked != AskedClock::Auto;
                links.iter_mut().for_each(|link| link.driver.stamp_by(by));
                if clocks.only_ptp {
                    probes(streams).for_each(|stream| stream.shape.ptp = true);
                }
                return Ok(Choice { clocks: Some(clocks), refused });
            }
            Err(why) => refused.push(format!("{}: {why}", word(by))),
        }
    }
    match asked {
        AskedClock::Auto | AskedClock::Tsc => Ok(Choice { clocks: None, refused }),
        AskedClock::Hardware | AskedClock::Kernel => Err(format!("--clock {}", refused.join("; "))),
    }
}

/// As `--clock` has it.
const fn word(by: StampedBy) -> &'static str {
    match by {
        StampedBy::Nic => "hardware",
        StampedBy::Kernel => "kernel",
    }
}

fn probes(streams: &mut [Stream]) -> impl Iterator<Item = &mut Stream> {
    streams.iter_mut().filter(|stream| matches!(stream.pacing, Pacing::Probe(_)))
}

impl Clocks {
    /// The clocks of these links, which run.
    fn open(
        by: StampedBy,
        links: &[LinkSpec],
        (streams, tagged): (&[Stream], bool),
        ticks: Ticks,
    ) -> Result<Self, String> {
        let (mut ports, mut only_ptp) = (Vec::new(), false);
        let mut sources: Vec<(Option<u32>, String, ClockSource)> = Vec::new();
        for link in links {
            let clock = link.driver.stamps(by)?;
            only_ptp |= clock.only_ptp;
            let own = link.driver.own_clock().filter(|_| clock.ptp.is_none() && by == StampedBy::Nic);
            let known = sources.iter().position(|(number, ..)| *number == clock.ptp).filter(|_| own.is_none());
            if let Some(known) = known {
                ports.push(known);
                continue;
            }
            let (name, source) = match (clock.ptp, own) {
                (None, Some(own)) => {
                    (format!("the clock of {}", link.name()), ClockSource::Other(Box::new(move || own.nanos())))
                }
                (None, None) => ("the time of day".to_owned(), ClockSource::TimeOfDay),
                (Some(number), _) => {
                    let name = format!("/dev/ptp{number}");
                    let source = ClockSource::ptp(number).map_err(|why| format!("{name} of {}: {why}", link.name()))?;
                    (format!("{name} of {}", link.name()), source)
                }
            };
            ports.push(sources.len());
            sources.push((clock.ptp, name, source));
        }
        if only_ptp && tagged {
            return Err("the NIC stamps messages of PTP alone, and the tagged frame is one of the test's".to_owned());
        }
        for stream in streams.iter().filter(|stream| only_ptp && matches!(stream.pacing, Pacing::Probe(_))) {
            let mut shape = stream.shape.clone();
            shape.ptp = true;
            let least = shape.smallest();
            if shape.sizes.iter().any(|size| *size < least) {
                return Err(format!(
                    "the NIC stamps messages of PTP alone, for which {} needs {least} bytes at least",
                    stream.name
                ));
            }
        }
        let sources: Vec<(String, ClockSource)> = sources.into_iter().map(|(_, name, source)| (name, source)).collect();
        let courses = sources.iter().map(|_| Course::new(ticks.hz())).collect();
        let state = Mutex::new(State { courses, given_up: None, unread: None });
        let clocks = Self { by, insisted: false, only_ptp, tagged, ports, sources, state };
        for _ in 0..FIRST_READINGS {
            clocks.read(ticks);
            thread::sleep(FIRST_APART);
        }
        if let Some(why) = clocks.doubt() {
            return Err(why);
        }
        match clocks.state().courses.iter().position(|course| !course.is_known()) {
            None => Ok(()),
            Some(at) => Err(format!("{} cannot be read exactly enough to judge its rate", clocks.sources[at].0)),
        }?;
        Ok(clocks)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all of them beside the counter: not by the thread that polls.
    pub fn read(&self, ticks: Ticks) {
        for (index, (name, source)) in self.sources.iter().enumerate() {
            let reading = source.read(ticks);
            let mut state = self.state();
            match reading {
                Ok(reading) => state.courses[index].take(reading),
                Err(why) => state.unread = Some(format!("{name} cannot be read: {why}")),
            }
        }
    }

    /// What is wrong with one of them, if anything.
    pub fn doubt(&self) -> Option<String> {
        let state = self.state();
        let found = state.courses.iter().zip(&self.sources);
        let mut doubts = found.filter_map(|(course, (name, _))| course.doubt().map(|doubt| format!("{name}: {doubt}")));
        doubts.next().or_else(|| state.unread.clone())
    }

    /// By whom frames are stamped; `None`: that was given up.
    pub fn by(&self) -> Option<stamps::StampedBy> {
        let by = match self.by {
            StampedBy::Kernel => stamps::StampedBy::Kernel,
            StampedBy::Nic => stamps::StampedBy::Nic,
        };
        self.state().given_up.is_none().then_some(by)
    }

    /// Stamps are not what they should be: they are not used after all, or, where
    /// they were asked for by name, nothing is.
    ///
    /// # Errors
    /// In that case.
    pub fn refuse(&self, why: String) -> Result<(), String> {
        if self.insisted {
            return Err(format!("--clock {}: {why}", word(self.by)));
        }
        self.state().given_up = Some(why);
        Ok(())
    }

    /// How far the clocks of two ports are apart; `None`: it is one clock, or
    /// somebody reads them just now.
    pub fn apart(&self) -> Option<Apart> {
        let [first, second] = self.ports[..] else { return None };
        if first == second {
            return None;
        }
        let state = self.state.try_lock().ok()?;
        let it = state.courses[first].apart(&state.courses[second])?;
        Some(Apart { tick: it.tick, nanos: it.nanos, per_tick: it.per_tick, bound: it.bound })
    }

    /// Whether it is a NIC's, and used.
    pub fn is_hardware(&self) -> bool {
        self.by() == Some(stamps::StampedBy::Nic)
    }

    /// A sentence for people.
    pub fn told(&self) -> String {
        let state = self.state();
        if let Some(why) = &state.given_up {
            return format!("stamps are not used: {why}");
        }
        let one = |((name, _), course): (&(String, ClockSource), &Course)| {
            format!(
                "{name}, in steps of {} ns, {:+.2} ppm beside the counter, read within {}",
                course.step(),
                course.rate_ppm(),
                seconds(course.bound())
            )
        };
        let all: Vec<String> = self.sources.iter().zip(&state.courses).map(one).collect();
        let (who, unknown) = match self.by {
            StampedBy::Nic => ("a NIC (hardware)", "where in the NIC it stamps a frame is not measured"),
            StampedBy::Kernel => {
                ("the kernel (software)", "between its stamps and the wire are driver and NIC, which they are blind to")
            }
        };
        let compared = match (self.sources.len(), state.courses.first(), state.courses.get(1)) {
            (2, Some(first), Some(second)) => {
                let bound = first.apart(second).map_or(f64::NAN, |apart| apart.bound);
                format!("; two clocks, compared ten times a second, now within {}", seconds(bound))
            }
            _ => "; one clock for both ends".to_owned(),
        };
        let ptp = if self.only_ptp { "; it stamps event messages of PTP alone, so that probes are such" } else { "" };
        let of = if self.tagged { "tagged frames" } else { "probes" };
        format!("latency of {of} by stamps of {who}: {}{compared}{ptp}; {unknown}", all.join("; "))
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let told = self.told();
        let state = self.state();
        let clocks = self.sources.iter().zip(&state.courses).map(|((name, _), course)| {
            json!({
                "name": name, "step_ns": course.step(), "rate_ppm": course.rate_ppm(),
                "read_within_ns": course.bound(), "readings": course.readings(),
                "doubt": course.doubt().map(|doubt| doubt.to_string()),
            })
        });
        json!({
            "told": told, "by": word(self.by), "only_ptp": self.only_ptp, "given_up": state.given_up,
            "clock_of_port": self.ports, "clocks": clocks.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::Role;
    use packet::stream::Shape;

    fn stream(pacing: Pacing) -> Vec<Stream> {
        vec![Stream { name: "probe".to_owned(), shape: Shape::default(), pacing, ways: [true, false] }]
    }

    #[test]
    fn what_links_do_not_have_is_refused_or_done_without() {
        let ticks = Ticks::calibrate(Duration::from_millis(5));
        let mut links = vec![LinkSpec::parse("memif:/run/x.sock", Role::Client).expect("a link")];
        let mut probe = stream(Pacing::Probe(None));
        let choice = choose(AskedClock::Auto, &mut links, Timed::Probes(&mut probe), ticks).expect("the counter");
        assert!(choice.clocks.is_none() && choice.refused.len() == 2, "{:?}", choice.refused);
        let mut refused =
            |asked, timed: Timed<'_>| choose(asked, &mut links, timed, ticks).map(|choice| choice.refused);
        for timed in [Timed::Probes(&mut probe), Timed::Tagged(true)] {
            let told = refused(AskedClock::Hardware, timed).expect_err("no NIC");
            assert!(told.contains("--clock hardware: a link of the kind memif does not stamp frames"), "{told}");
        }
        assert_eq!(refused(AskedClock::Tsc, Timed::Probes(&mut probe)), Ok(Vec::new()));
        for timed in [Timed::Probes(&mut stream(Pacing::Max)), Timed::Tagged(false)] {
            assert!(refused(AskedClock::Kernel, timed).is_err_and(|why| why.contains("there are none")));
        }
        assert_eq!(refused(AskedClock::Auto, Timed::Tagged(false)), Ok(Vec::new()));
    }
}
