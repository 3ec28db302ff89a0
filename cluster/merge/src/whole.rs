//! The figures of all workers, and the report on them.

use control::{Outcome, Problem};
use load::{Figures, Outside, Plan, PortUse, Reason, Report, Spoils, Trust};
use messages::Measured;

/// The sum of what workers measured.
#[derive(Debug, Default)]
pub struct Whole {
    figures: Figures,
    outside: Outside,
    workers: u32,
}

impl Whole {
    /// Adds what a worker measured; the figures were admitted ([`crate::read`]).
    pub fn add(&mut self, measured: &Measured<Figures, Outside>) {
        self.figures.merge(&measured.figures);
        add_outside(&mut self.outside, &measured.outside);
        self.workers += 1;
    }

    /// The workers whose figures are in it.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// What was counted, by all of them.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The report on the whole of `plan`. What makes the test invalid is in its verdict, each by its worker's name.
    #[must_use]
    pub fn report<M>(self, plan: &Plan, outcome: &Outcome<M>) -> Report {
        let mut report = Report::new(plan, &self.figures, self.outside);
        let reason = |problem: &Problem| Reason {
            trust: Trust::No,
            spoils: Spoils::All,
            what: problem.kind.words(),
            sentence: problem.to_string(),
        };
        let reasons: Vec<Reason> = outcome.problems.iter().map(reason).collect();
        if !reasons.is_empty() {
            report.verdict.trust = Trust::No;
            report.verdict.reasons.splice(0..0, reasons);
        }
        report
    }
}

/// Of shares and delays the worst speaks for all, as of silos; what is counted is added up.
fn add_outside(mine: &mut Outside, theirs: &Outside) {
    let share = |busy: &load::Busy| busy.busy.as_secs_f64() / busy.total.as_secs_f64().max(1e-9);
    let busier = theirs.busy.filter(|busy| mine.busy.is_none_or(|most| share(busy) > share(&most)));
    mine.busy = busier.or(mine.busy);
    if let Some(cpu) = theirs.cpu {
        let sum = mine.cpu.get_or_insert_default();
        sum.user_ns = sum.user_ns.saturating_add(cpu.user_ns);
        sum.system_ns = sum.system_ns.saturating_add(cpu.system_ns);
        sum.run_delay_ns = sum.run_delay_ns.max(cpu.run_delay_ns);
        sum.span_ns = sum.span_ns.max(cpu.span_ns);
    }
    let fuller = theirs.ports.filter(|ports| {
        let full = |ports: &load::Ports| ports.used as f64 / ports.available.max(1) as f64;
        mine.ports.is_none_or(|most| full(ports) > full(&most))
    });
    mine.ports = fuller.or(mine.ports);
    let higher = theirs.floor.filter(|floor| mine.floor.is_none_or(|most| floor.mean_ns > most.mean_ns));
    mine.floor = higher.or(mine.floor);
    mine.stolen = [mine.stolen, theirs.stolen].into_iter().flatten().reduce(f64::max);
    for port in &theirs.carried {
        // Workers of one machine see the same interfaces.
        let carries = |port: &PortUse| port.sent + port.received;
        match mine.carried.iter_mut().find(|known| known.name == port.name) {
            Some(known) if carries(known) >= carries(port) => {}
            Some(known) => known.clone_from(port),
            None => mine.carried.push(port.clone()),
        }
    }
    for sibling in &theirs.siblings {
        if !mine.siblings.iter().any(|known| known.core == sibling.core) {
            mine.siblings.push(*sibling);
        }
    }
}
