//! What the kernel's own tracer of noise tells of a core, beside what is found
//! here.

use crate::tracepoints::Witnessed;
use serde::Serialize;

/// How often each kind was, and its nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Witness {
    kinds: [(u64, u64); KINDS.len()],
}

/// Kinds, their names, and which of our causes each holds.
const KINDS: [(Witnessed, &str, &[&str]); 4] = [
    (Witnessed::Interrupts, "interrupts", &["interrupt", "ipi", "tick", "timer"]),
    (Witnessed::Softirqs, "softirqs", &["softirq"]),
    (Witnessed::Threads, "threads", &["thread"]),
    (Witnessed::Nmis, "NMIs", &["nmi"]),
];

/// One kind, by both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Beside {
    /// What it is.
    pub kind: &'static str,
    /// How often the kernel's tracer found it.
    pub times: u64,
    /// For how long, nanoseconds.
    pub nanos: u64,
    /// Nanoseconds that gaps here went to it.
    pub here_nanos: u64,
}

impl Witness {
    pub(crate) fn add(&mut self, kind: Witnessed, nanos: u64) {
        for ((times, sum), _) in self.kinds.iter_mut().zip(KINDS).filter(|(_, (known, ..))| *known == kind) {
            *times += 1;
            *sum = sum.saturating_add(nanos);
        }
    }

    /// Beside what gaps went to: kinds of causes, and nanoseconds.
    pub(crate) fn beside<'a>(&self, causes: impl Iterator<Item = (&'a str, u64)> + Clone) -> Vec<Beside> {
        let one = |((times, nanos), (_, kind, ours)): ((u64, u64), (Witnessed, &'static str, &[&str]))| {
            let here = causes.clone().filter(|(kind, _)| ours.contains(kind)).map(|(_, nanos)| nanos);
            Beside { kind, times, nanos, here_nanos: here.sum() }
        };
        self.kinds.into_iter().zip(KINDS).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_beside_ours() {
        let mut witness = Witness::default();
        witness.add(Witnessed::Threads, 200);
        witness.add(Witnessed::Threads, 300);
        witness.add(Witnessed::Interrupts, 40);
        let causes = [("thread", 480), ("tick", 30), ("ipi", 5), ("page-fault", 9)];
        let beside = witness.beside(causes.into_iter());
        let of = |at: usize| (beside[at].kind, beside[at].times, beside[at].nanos, beside[at].here_nanos);
        assert_eq!((of(0), of(2)), (("interrupts", 1, 40, 35), ("threads", 2, 500, 480)));
        assert_eq!((of(1), of(3)), (("softirqs", 0, 0, 0), ("NMIs", 0, 0, 0)));
    }
}
