//! What peers can have us do for little: each kind is counted by name, on a budget that refills as
//! time passes. Who exceeds one is closed by ENHANCE_YOUR_CALM.

/// A kind of flood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flood {
    /// Requests that are reset before they are answered (CVE-2023-44487).
    RapidReset,
    /// What makes us reset streams (CVE-2025-8671).
    MadeReset,
    /// CONTINUATION after CONTINUATION (CVE-2024-27316), or a field section without end.
    Continuation,
    /// SETTINGS (CVE-2019-9515), among them new windows for all streams.
    Settings,
    /// PING (CVE-2019-9512).
    Ping,
    /// PRIORITY and PRIORITY_UPDATE (CVE-2019-9513).
    Priority,
    /// Frames that have nothing, or no known kind (CVE-2019-9518).
    Empty,
    /// Room for a few bytes more, again and again.
    Window,
    /// Padding with nothing in it.
    Padding,
    /// New sizes of the table of fields.
    Table,
    /// Requests whose heads are more than they are on the wire, and wait (the HTTP/2 Bomb).
    Heads,
    /// Framing of much more than it frames.
    Overhead,
    /// Interim answers of an upstream, before one that counts.
    Interim,
}

impl Flood {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::RapidReset,
        Self::MadeReset,
        Self::Continuation,
        Self::Settings,
        Self::Ping,
        Self::Priority,
        Self::Empty,
        Self::Window,
        Self::Padding,
        Self::Table,
        Self::Heads,
        Self::Overhead,
        Self::Interim,
    ];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RapidReset => "rapid reset",
            Self::MadeReset => "resets that we are made to send",
            Self::Continuation => "CONTINUATION",
            Self::Settings => "SETTINGS",
            Self::Ping => "PING",
            Self::Priority => "PRIORITY",
            Self::Empty => "empty frames",
            Self::Window => "WINDOW_UPDATE",
            Self::Padding => "padding",
            Self::Table => "table sizes",
            Self::Heads => "decoded heads",
            Self::Overhead => "overhead",
            Self::Interim => "interim answers",
        }
    }

    /// How many of it come back with each request, or answer, that is of use: what honest peers send beside
    /// them, however quickly these follow each other. Frames of no known kind are among it, which are to be
    /// ignored (RFC 9113 section 4.1).
    const fn earned(self) -> u16 {
        match self {
            Self::Settings | Self::Ping | Self::Priority | Self::Padding => 1,
            Self::Empty => 2,
            // Hints of more than one kind.
            Self::Interim => 4,
            Self::RapidReset | Self::MadeReset | Self::Continuation | Self::Window => 0,
            Self::Table | Self::Heads | Self::Overhead => 0,
        }
    }

    /// How many of it are taken at once, and for each second that passes.
    const fn allowed(self) -> (u16, u16) {
        match self {
            // A browser that leaves a page, or scrolls, resets what it has asked for.
            Self::RapidReset => (512, 100),
            Self::MadeReset => (128, 10),
            // Of one field section; bytes of fields have their own bound.
            Self::Continuation => (64, 64),
            Self::Settings => (64, 4),
            // gRPC asks for round trips while a body comes.
            Self::Ping => (1_000, 100),
            Self::Priority => (1_000, 100),
            Self::Empty | Self::Padding | Self::Interim => (256, 16),
            Self::Window => (4_000, 400),
            Self::Table => (256, 16),
            Self::Heads => (256, 16),
            Self::Overhead => (1, 0),
        }
    }
}

/// What is left of each budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    spent: [u16; Flood::ALL.len()],
    /// The second to which they were refilled.
    second: u32,
    /// Requests and answers that were of use, of which nothing came back yet.
    earned: u16,
    /// Bytes of frames, and those of them that were of use, since the connection began.
    total: u64,
    useful: u64,
}

/// Bytes of framing that are taken, whatever they frame, as nginx has it.
const OVERHEAD: u64 = 1 << 20;

impl Budgets {
    pub const fn new() -> Self {
        Self { spent: [0; Flood::ALL.len()], second: 0, earned: 0, total: 0, useful: 0 }
    }

    /// It is this second.
    pub fn refill(&mut self, second: u32) {
        let passed = second.saturating_sub(self.second);
        if passed == 0 {
            return;
        }
        self.second = second;
        for kind in Flood::ALL {
            let (_, rate) = kind.allowed();
            let more = u16::try_from(u32::from(rate).saturating_mul(passed)).unwrap_or(u16::MAX);
            self.spent[kind as usize] = self.spent[kind as usize].saturating_sub(more);
        }
    }

    /// The second that it is, as far as that was told.
    pub const fn second(&self) -> u32 {
        self.second
    }

    /// One more of this kind.
    ///
    /// # Errors
    /// It is too many.
    pub fn spend(&mut self, kind: Flood) -> Result<(), Flood> {
        if self.earned > 0 {
            let earned = core::mem::take(&mut self.earned);
            for kind in Flood::ALL {
                let spent = &mut self.spent[kind as usize];
                *spent = spent.saturating_sub(kind.earned().saturating_mul(earned));
            }
        }
        let (most, _) = kind.allowed();
        let spent = &mut self.spent[kind as usize];
        *spent = spent.saturating_add(1);
        if *spent > most { Err(kind) } else { Ok(()) }
    }

    /// A request, or an answer, that is of use.
    pub const fn earn(&mut self) {
        self.earned = self.earned.saturating_add(1);
    }

    /// One less: what followed it was of use.
    pub const fn give_back(&mut self, kind: Flood) {
        self.spent[kind as usize] = self.spent[kind as usize].saturating_sub(1);
    }

    /// It is over: the next begins anew.
    pub const fn clear(&mut self, kind: Flood) {
        self.spent[kind as usize] = 0;
    }

    /// So many bytes came in frames, `useful` of them fields or bodies.
    ///
    /// # Errors
    /// There is much more than what is of use.
    pub const fn note(&mut self, total: u64, useful: u64) -> Result<(), Flood> {
        self.total = self.total.saturating_add(total);
        self.useful = self.useful.saturating_add(useful);
        if self.total / 8 > self.useful.saturating_add(OVERHEAD) { Err(Flood::Overhead) } else { Ok(()) }
    }

    /// So many bytes of bodies were sent, for which windows are to be opened.
    pub const fn sent(&mut self, bytes: u64) {
        self.useful = self.useful.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_beside_requests_is_no_flood() {
        let mut budgets = Budgets::new();
        let beside: Vec<(Flood, u16)> = Flood::ALL.map(|kind| (kind, kind.earned())).into();
        for _ in 0..20_000 {
            budgets.earn();
            for (kind, count) in &beside {
                assert!((0..*count).all(|_| budgets.spend(*kind).is_ok()), "{}", kind.name());
            }
        }
        // And without them it is one as ever, however many there were.
        for kind in Flood::ALL {
            let (most, _) = kind.allowed();
            let taken = (0..=most).take_while(|_| budgets.spend(kind).is_ok()).count();
            assert!(taken <= usize::from(most), "{}", kind.name());
        }
    }

    #[test]
    fn each_budget_is_its_own_and_refills() {
        for kind in Flood::ALL {
            let mut budgets = Budgets::new();
            let (most, rate) = kind.allowed();
            assert!((0..most).all(|_| budgets.spend(kind).is_ok()), "{}", kind.name());
            assert_eq!(budgets.spend(kind), Err(kind));
            let mut others = budgets;
            for other in Flood::ALL.into_iter().filter(|other| *other != kind) {
                assert_eq!(others.spend(other), Ok(()));
            }
            budgets.refill(2);
            let again = (0..=most).take_while(|_| budgets.spend(kind).is_ok()).count();
            assert_eq!(again, usize::from((2 * rate).saturating_sub(1).min(most)), "{}", kind.name());
        }
        let mut budgets = Budgets::new();
        assert_eq!(budgets.note(8 * OVERHEAD, 0), Ok(()));
        assert_eq!(budgets.note(8, 0), Err(Flood::Overhead));
        assert_eq!(budgets.note(8, 2), Ok(()));
    }
}
