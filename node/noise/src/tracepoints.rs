//! The kernel's tracepoints, read as events of a [`crate::Timeline`].

use crate::cause::{Name, Vector};
use crate::timeline::{Event, Frame};
use perf::{Field, Format, Symbols};
use std::collections::{HashMap, HashSet};

/// What a tracepoint tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tells {
    InterruptEnter,
    InterruptLeave,
    SoftirqEnter,
    SoftirqLeave,
    VectorEnter(Vector),
    VectorLeave(Vector),
    TimerEnter,
    TimerLeave,
    Switch,
    Function,
    Called,
    PageFault,
    Nmi,
    Frequency,
    MachineCheck,
    /// Only how often it was.
    Count,
    /// What the kernel's tracer of noise found, and how long.
    Found(Witnessed),
}

/// Kinds of what the kernel's tracer of noise finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Witnessed {
    /// Interrupts that can be masked, of any kind.
    Interrupts,
    /// Softirqs.
    Softirqs,
    /// Threads.
    Threads,
    /// Interrupts that cannot be masked.
    Nmis,
}

/// Its tracepoints: each comes when what took the core is over, and has the time
/// without what interrupted that.
const WITNESS: [(&str, Tells, [&str; 2]); 4] = [
    ("osnoise/irq_noise", Tells::Found(Witnessed::Interrupts), ["duration", ""]),
    ("osnoise/softirq_noise", Tells::Found(Witnessed::Softirqs), ["duration", ""]),
    ("osnoise/thread_noise", Tells::Found(Witnessed::Threads), ["duration", "pid"]),
    ("osnoise/nmi_noise", Tells::Found(Witnessed::Nmis), ["duration", ""]),
];

/// Their names, what they tell, and the fields that tell it. Those of the first
/// group are what naming rests on; without the others less is told apart. The end
/// of irq work is no event that perf may have, since perf makes such work itself.
const WANTED: [(&str, Tells, [&str; 2]); 34] = [
    ("irq/irq_handler_entry", Tells::InterruptEnter, ["irq", "name"]),
    ("irq/irq_handler_exit", Tells::InterruptLeave, ["irq", ""]),
    ("irq/softirq_entry", Tells::SoftirqEnter, ["vec", ""]),
    ("irq/softirq_exit", Tells::SoftirqLeave, ["vec", ""]),
    ("sched/sched_switch", Tells::Switch, ["next_pid", "next_comm"]),
    ("irq_vectors/local_timer_entry", Tells::VectorEnter(Vector::LocalTimer), ["", ""]),
    ("irq_vectors/local_timer_exit", Tells::VectorLeave(Vector::LocalTimer), ["", ""]),
    ("irq_vectors/reschedule_entry", Tells::VectorEnter(Vector::Reschedule), ["", ""]),
    ("irq_vectors/reschedule_exit", Tells::VectorLeave(Vector::Reschedule), ["", ""]),
    ("irq_vectors/call_function_entry", Tells::VectorEnter(Vector::CallFunction), ["", ""]),
    ("irq_vectors/call_function_exit", Tells::VectorLeave(Vector::CallFunction), ["", ""]),
    ("irq_vectors/call_function_single_entry", Tells::VectorEnter(Vector::CallFunctionSingle), ["", ""]),
    ("irq_vectors/call_function_single_exit", Tells::VectorLeave(Vector::CallFunctionSingle), ["", ""]),
    ("irq_vectors/x86_platform_ipi_entry", Tells::VectorEnter(Vector::Platform), ["", ""]),
    ("irq_vectors/x86_platform_ipi_exit", Tells::VectorLeave(Vector::Platform), ["", ""]),
    ("irq_vectors/thermal_apic_entry", Tells::VectorEnter(Vector::Thermal), ["", ""]),
    ("irq_vectors/thermal_apic_exit", Tells::VectorLeave(Vector::Thermal), ["", ""]),
    ("irq_vectors/threshold_apic_entry", Tells::VectorEnter(Vector::Threshold), ["", ""]),
    ("irq_vectors/threshold_apic_exit", Tells::VectorLeave(Vector::Threshold), ["", ""]),
    ("irq_vectors/error_apic_entry", Tells::VectorEnter(Vector::Error), ["", ""]),
    ("irq_vectors/error_apic_exit", Tells::VectorLeave(Vector::Error), ["", ""]),
    ("irq_vectors/spurious_apic_entry", Tells::VectorEnter(Vector::Error), ["", ""]),
    ("irq_vectors/spurious_apic_exit", Tells::VectorLeave(Vector::Error), ["", ""]),
    ("timer/hrtimer_expire_entry", Tells::TimerEnter, ["function", ""]),
    ("timer/hrtimer_expire_exit", Tells::TimerLeave, ["", ""]),
    ("workqueue/workqueue_execute_start", Tells::Function, ["function", ""]),
    ("csd/csd_function_entry", Tells::Called, ["func", ""]),
    ("exceptions/page_fault_user", Tells::PageFault, ["", ""]),
    ("exceptions/page_fault_kernel", Tells::PageFault, ["", ""]),
    ("nmi/nmi_handler", Tells::Nmi, ["delta_ns", ""]),
    ("power/cpu_frequency", Tells::Frequency, ["cpu_id", ""]),
    ("mce/mce_record", Tells::MachineCheck, ["", ""]),
    ("lock/contention_begin", Tells::Count, ["", ""]),
    ("rcu/rcu_stall_warning", Tells::Count, ["", ""]),
];

/// Without these nothing can be named.
const NEEDED: usize = 5;

/// Softirqs by their number, as `/proc/softirqs` names them.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The scheduler's tick, by the names that it had.
const TICKS: [&str; 4] = ["tick_nohz_handler", "tick_sched_timer", "tick_nohz_highres_handler", "tick_handle_periodic"];

/// A tracepoint that this kernel has.
#[derive(Clone, Debug)]
struct Known {
    name: &'static str,
    format: Format,
    tells: Tells,
    fields: [Option<Field>; 2],
}

/// Reads records of tracepoints.
#[derive(Debug)]
pub struct Tracepoints {
    known: Vec<Known>,
    by_id: HashMap<u64, usize>,
    /// Those that this kernel lacks, or hides, and why.
    pub missing: Vec<(&'static str, String)>,
    symbols: Symbols,
    names: HashSet<Name>,
}

/// Names kept; of more, each is a new text.
const NAMES_LIMIT: usize = 4_096;

impl Tracepoints {
    /// Those that `format` finds, by their names; with those of the kernel's tracer
    /// of noise, if it is a witness.
    ///
    /// # Errors
    /// Why one of those is missing without which nothing can be named.
    pub fn find(
        format: impl Fn(&str) -> Result<Format, String>,
        symbols: Symbols,
        witness: bool,
    ) -> Result<Self, String> {
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        let more = WITNESS.into_iter().filter(|_| witness);
        for (at, (name, tells, fields)) in WANTED.into_iter().chain(more).enumerate() {
            let found = format(name).and_then(|format| {
                let field = |wanted: &str| match wanted {
                    "" => Ok(None),
                    wanted => format.field(wanted).map(Some).ok_or_else(|| format!("it has no field {wanted}")),
                };
                let fields = [field(fields[0])?, field(fields[1])?];
                Ok(Known { name, format, tells, fields })
            });
            match found {
                Ok(found) => known.push(found),
                Err(why) if at < NEEDED => return Err(format!("{name}: {why}")),
                Err(why) => missing.push((name, why)),
            }
        }
        let by_id = known.iter().enumerate().map(|(at, known)| (known.format.id, at)).collect();
        Ok(Self { known, by_id, missing, symbols, names: HashSet::new() })
    }

    /// What to ask the kernel for.
    #[must_use]
    pub fn formats(&self) -> Vec<&Format> {
        self.known.iter().map(|known| &known.format).collect()
    }

    /// A tracepoint's name, by its number.
    #[must_use]
    pub fn name(&self, id: u64) -> Option<&'static str> {
        Some(self.known.get(*self.by_id.get(&id)?)?.name)
    }

    /// What a record of a core tells; nothing of those that are only counted,
    /// and of what cannot be read.
    pub fn event(&mut self, core: u16, id: u64, record: &[u8]) -> Option<Event> {
        let known = self.known.get(*self.by_id.get(&id)?)?;
        let number = |at: usize| known.fields[at].as_ref()?.number(record);
        Some(match known.tells {
            Tells::InterruptEnter => {
                let number = u32::try_from(number(0)?).ok()?;
                let name = known.fields[1].as_ref()?.text(record)?.to_owned();
                Event::Enter(Frame::Interrupt(number, self.shared(&name)))
            }
            Tells::InterruptLeave => Event::Leave(Frame::Interrupt(u32::try_from(number(0)?).ok()?, self.shared(""))),
            Tells::SoftirqEnter => Event::Enter(Frame::Softirq(self.softirq(number(0)?))),
            Tells::SoftirqLeave => Event::Leave(Frame::Softirq(self.softirq(number(0)?))),
            Tells::VectorEnter(vector) => Event::Enter(Frame::Vector(vector)),
            Tells::VectorLeave(vector) => Event::Leave(Frame::Vector(vector)),
            Tells::TimerEnter => {
                let function = number(0)?;
                let name = self.function(function);
                let tick = TICKS.contains(&&*name);
                Event::Enter(Frame::Timer(name, tick))
            }
            Tells::TimerLeave => Event::Leave(Frame::Timer(self.shared(""), false)),
            Tells::Switch => {
                let thread = u32::try_from(number(0)?).ok()?;
                let name = known.fields[1].as_ref()?.text(record)?.to_owned();
                Event::Switch { thread, name: self.shared(&name) }
            }
            Tells::Function => {
                let function = number(0)?;
                Event::Does(self.function(function))
            }
            Tells::Called => {
                let function = number(0)?;
                Event::Calls(self.function(function))
            }
            Tells::PageFault => Event::PageFault,
            // It is signed: a clock that went back is none.
            Tells::Nmi => Event::Nmi(number(0).filter(|nanos| *nanos < 1 << 40)?),
            // Whoever sets it may be another core.
            Tells::Frequency if number(0)? == u64::from(core) => Event::Frequency,
            Tells::MachineCheck => Event::MachineCheck,
            Tells::Frequency | Tells::Count | Tells::Found(_) => return None,
        })
    }

    /// What the kernel's tracer of noise found: its kind, nanoseconds, and of a
    /// thread which.
    pub fn witnessed(&self, id: u64, record: &[u8]) -> Option<(Witnessed, u64, Option<u64>)> {
        let known = self.known.get(*self.by_id.get(&id)?)?;
        let Tells::Found(kind) = known.tells else { return None };
        let number = |at: usize| known.fields[at].as_ref()?.number(record);
        // It is signed in some versions: a clock that went back is none.
        let nanos = number(0).filter(|nanos| *nanos < 1 << 40)?;
        Some((kind, nanos, number(1)))
    }

    fn softirq(&mut self, vector: u64) -> Name {
        let name = usize::try_from(vector).ok().and_then(|at| SOFTIRQS.get(at));
        match name {
            Some(name) => self.shared(name),
            None => self.shared(&vector.to_string()),
        }
    }

    fn function(&mut self, address: u64) -> Name {
        match self.symbols.name(address).map(str::to_owned) {
            Some(name) => self.shared(&name),
            None => self.shared(&format!("function at {address:#x}")),
        }
    }

    fn shared(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        // A thread's name is its own choice, and is for the eyes of whoever looks.
        let odd = |char: char| char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let plain = text.contains(odd).then(|| text.replace(odd, "?"));
        let text = plain.as_deref().unwrap_or(text);
        let name: Name = self.names.get(text).cloned().unwrap_or_else(|| text.into());
        if self.names.len() < NAMES_LIMIT {
            self.names.insert(name.clone());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel whose tracepoints have their fields one after the other, eight
    /// bytes each.
    fn format(name: &str) -> Result<Format, String> {
        let all: Vec<_> = WANTED.into_iter().chain(WITNESS).collect();
        let at = all.iter().position(|(known, ..)| *known == name).expect("one that is wanted");
        let (_, _, fields) = all[at];
        let mut text = format!("name: x\nID: {}\n", 100 + at);
        for (index, field) in fields.iter().enumerate().filter(|(_, field)| !field.is_empty()) {
            let kind = if field.ends_with("name") || field.ends_with("comm") { "char" } else { "long" };
            text += &format!("\tfield:{kind} {field};\toffset:{};\tsize:8;\tsigned:0;\n", 8 + 8 * index);
        }
        Format::parse(&text)
    }

    fn found() -> Tracepoints {
        let symbols = Symbols::parse("00000000000000f0 t tick_nohz_handler\n00000000000000f1 t timerfd_tmrproc\n");
        Tracepoints::find(format, symbols, true).expect("all that is needed")
    }

    fn record(first: u64, text: &[u8; 8]) -> Vec<u8> {
        let mut record = vec![0; 8];
        record.extend_from_slice(&first.to_ne_bytes());
        record.extend_from_slice(text);
        record
    }

    #[test]
    fn records_become_events() {
        let mut known = found();
        let id = |name: &str| 100 + WANTED.iter().position(|(known, ..)| *known == name).expect("it is wanted") as u64;
        let mut event = |name: &str, first: u64| known.event(3, id(name), &record(first, b"eth0-rx\0"));
        assert_eq!(event("irq/irq_handler_entry", 36), Some(Event::Enter(Frame::Interrupt(36, "eth0-rx".into()))));
        assert_eq!(event("irq/softirq_entry", 3), Some(Event::Enter(Frame::Softirq("NET_RX".into()))));
        assert_eq!(event("irq/softirq_exit", 77), Some(Event::Leave(Frame::Softirq("77".into()))));
        assert_eq!(event("sched/sched_switch", 9), Some(Event::Switch { thread: 9, name: "eth0-rx".into() }));
        let tick = Event::Enter(Frame::Timer("tick_nohz_handler".into(), true));
        assert_eq!(event("timer/hrtimer_expire_entry", 0xf0), Some(tick));
        let other = Event::Enter(Frame::Timer("timerfd_tmrproc".into(), false));
        assert_eq!(event("timer/hrtimer_expire_entry", 0xf1), Some(other));
        assert_eq!(event("workqueue/workqueue_execute_start", 5), Some(Event::Does("function at 0x5".into())));
        assert_eq!(event("power/cpu_frequency", 3), Some(Event::Frequency));
        assert_eq!(event("power/cpu_frequency", 4), None, "another core's");
        assert_eq!(event("nmi/nmi_handler", u64::MAX), None, "a clock that went back");
        assert_eq!(event("lock/contention_begin", 0), None);
        // Of no tracepoint of ours, and cut off.
        assert_eq!(known.event(3, 7, &[]), None);
        assert_eq!(known.event(3, id("sched/sched_switch"), &[0; 12]), None);
        assert_eq!((known.name(100), known.name(7)), (Some("irq/irq_handler_entry"), None));
    }

    #[test]
    fn a_witness_tells_kinds_and_times() {
        let mut known = found();
        let first = 100 + WANTED.len() as u64;
        let thread = record(2_500, &77_u64.to_ne_bytes());
        assert_eq!(known.witnessed(first, &record(900, b"\0\0\0\0\0\0\0\0")), Some((Witnessed::Interrupts, 900, None)));
        assert_eq!(known.witnessed(first + 2, &thread), Some((Witnessed::Threads, 2_500, Some(77))));
        assert_eq!(known.witnessed(first + 3, &record(u64::MAX, b"\0\0\0\0\0\0\0\0")), None, "a clock that went back");
        assert_eq!((known.witnessed(100, &thread), known.event(3, first + 2, &thread)), (None, None));
        let without = Tracepoints::find(format, Symbols::default(), false).expect("all that is needed");
        assert_eq!(without.formats().len(), WANTED.len());
    }

    #[test]
    fn what_a_kernel_lacks_is_told_or_too_much() {
        let without = |lacks: &'static str| {
            move |name: &str| if name == lacks { Err("this kernel has none".to_owned()) } else { format(name) }
        };
        let some = Tracepoints::find(without("nmi/nmi_handler"), Symbols::default(), false).expect("enough");
        assert_eq!(some.missing, [("nmi/nmi_handler", "this kernel has none".to_owned())]);
        assert_eq!(some.formats().len(), WANTED.len() - 1);
        let why = Tracepoints::find(without("sched/sched_switch"), Symbols::default(), false).expect_err("too little");
        assert_eq!(why, "sched/sched_switch: this kernel has none");
    }

    #[test]
    fn a_threads_name_does_nothing_to_a_terminal() {
        let mut known = found();
        let name = known.shared("\u{1b}]0;x\u{7}\n\u{202e}");
        assert_eq!(&*name, "?]0;x???");
        assert!(std::sync::Arc::ptr_eq(&name, &known.shared("\u{1b}]0;x\u{7}\n\u{202e}")), "kept once");
    }

    #[test]
    fn names_that_never_end_are_not_kept() {
        let mut known = found();
        for n in 0..2 * NAMES_LIMIT {
            known.shared(&n.to_string());
        }
        assert_eq!(known.names.len(), NAMES_LIMIT);
    }
}
