//! What joins domains, and which part of it is between two of them.
//!
//! What is stated between two sockets is one set of links, which all pairs of their domains share:
//! a socket of two domains has no more links for that. Pairs that nothing joins are routed over
//! what there is, the fewest hops; within a socket, over that socket alone. What is left is a part
//! of which nothing is known: a socket's own domains have something between them.

use crate::machine::{BudgetMachine, PerSecond};
use std::collections::{BTreeMap, VecDeque};
use topology::Ranges;

/// A part of the fabric, in one direction.
pub struct FabricPart {
    /// Which: `0 to 1`, or `0-1 to 2-3` of sockets.
    pub name: String,
    /// What it carries.
    pub carries: Option<PerSecond>,
}

/// The parts of a machine's fabric, and which of them lie between two domains.
pub struct FabricRoutes {
    /// The parts.
    pub parts: Vec<FabricPart>,
    /// By the domains' indices: the parts in order.
    routes: BTreeMap<(usize, usize), Vec<usize>>,
    /// What is to be known of them.
    pub notes: Vec<String>,
}

/// A part, before it has its place among the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ends {
    Domains(usize, usize),
    Sockets(u16, u16),
}

/// The graph that is stated, by the domains' indices.
struct Graph<'a> {
    machine: &'a BudgetMachine,
    edges: BTreeMap<(usize, usize), PerSecond>,
}

impl FabricRoutes {
    pub fn of(machine: &BudgetMachine) -> Self {
        let at = |number: u16| machine.domains.iter().position(|domain| domain.number == number);
        let edge = |way: &crate::FabricWay| Some(((at(way.from)?, at(way.to)?), way.rate));
        let graph = Graph { machine, edges: machine.fabric.iter().filter_map(edge).collect() };
        let mut made = Self { parts: Vec::new(), routes: BTreeMap::new(), notes: Vec::new() };
        let mut known = BTreeMap::new();
        let count = machine.domains.len();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            let hops = graph.route(from, to);
            if hops.len() > 1 && from < to {
                let numbers: Vec<String> = hops.iter().map(|ends| graph.name(*ends)).collect();
                let [a, b] = [from, to].map(|at| machine.domains[at].number);
                made.notes.push(format!("nothing joins domains {a} and {b}: it goes over {}", numbers.join(", ")));
            }
            let place = |ends: &Ends| {
                *known.entry(*ends).or_insert_with(|| {
                    made.parts.push(FabricPart { name: graph.name(*ends), carries: graph.carries(*ends) });
                    made.parts.len() - 1
                })
            };
            let mut route: Vec<usize> = hops.iter().map(place).collect();
            route.dedup();
            made.routes.insert((from, to), route);
        }
        let shared = made.parts.iter().find(|part| part.carries.is_some() && part.name.contains(['-', ',']));
        if let Some(part) = shared {
            made.notes.push(format!(
                "domains of a socket share its links to another ({}): their figures are not added up",
                part.name
            ));
        }
        made
    }

    /// The parts between two domains, by their indices.
    pub fn between(&self, from: usize, to: usize) -> &[usize] {
        self.routes.get(&(from, to)).map_or(&[], Vec::as_slice)
    }
}

impl Graph<'_> {
    /// The sockets of two domains, if these are of two sockets.
    fn sockets(&self, from: usize, to: usize) -> Option<(u16, u16)> {
        let (from, to) = (self.machine.domains[from].socket?, self.machine.domains[to].socket?);
        (from != to).then_some((from, to))
    }

    fn ends(&self, from: usize, to: usize) -> Ends {
        self.sockets(from, to).map_or(Ends::Domains(from, to), |(from, to)| Ends::Sockets(from, to))
    }

    fn carries(&self, ends: Ends) -> Option<PerSecond> {
        let of = self.edges.iter().filter(|((from, to), _)| self.ends(*from, *to) == ends).map(|(_, rate)| *rate);
        of.max_by(|a, b| a.bytes.total_cmp(&b.bytes))
    }

    fn name(&self, ends: Ends) -> String {
        let number = |at: usize| self.machine.domains[at].number;
        let of = |socket: u16| {
            let domains = self.machine.domains.iter().filter(|domain| domain.socket == Some(socket));
            Ranges(&domains.map(|domain| domain.number).collect::<Vec<_>>()).to_string()
        };
        match ends {
            Ends::Domains(from, to) => format!("{} to {}", number(from), number(to)),
            Ends::Sockets(from, to) => format!("{} to {}", of(from), of(to)),
        }
    }

    fn route(&self, from: usize, to: usize) -> Vec<Ends> {
        if self.edges.contains_key(&(from, to)) {
            return vec![self.ends(from, to)];
        }
        let socket = self.machine.domains[from].socket;
        let within = socket.is_some() && socket == self.machine.domains[to].socket;
        let may = |at: usize| !within || self.machine.domains[at].socket == socket;
        // The first way that is found has the fewest hops.
        let mut before = BTreeMap::from([(from, from)]);
        let mut next = VecDeque::from([from]);
        while let Some(at) = next.pop_front().filter(|at| *at != to) {
            for (_, other) in self.edges.keys().filter(|(start, _)| *start == at) {
                if may(*other) && !before.contains_key(other) {
                    before.insert(*other, at);
                    next.push_back(*other);
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = to;
        while let Some(last) = before.get(&at).filter(|last| **last != at) {
            hops.push(self.ends(*last, at));
            at = *last;
        }
        hops.reverse();
        // Of sockets whose other domains are joined the links are theirs, too.
        if hops.is_empty() { vec![self.ends(from, to)] } else { hops }
    }
}
