//! Whether to read from a connection that was accepted just now, before the
//! kernel is asked to tell of it.

/// How sure it is that a new connection's request is there already: the
/// bounds, and what a first read that found nothing takes off it. A read in
/// vain costs some 300 ns; one that is not, saves a watch and an event, some
/// 1,000.
const MAX: i8 = 8;
const MIN: i8 = -32;
const IN_VAIN: i8 = 3;

/// What first reads found of late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Luck(i8);

impl Luck {
    /// Whether the next first read is worth it: some are left out after those
    /// that came in vain.
    pub(crate) const fn tries(&mut self) -> bool {
        if self.0 < 0 {
            self.0 += 1;
            return false;
        }
        true
    }

    /// Whether a first read found something: if they come in vain, the next
    /// ones are left out.
    pub(crate) fn learn(&mut self, found: bool) {
        self.0 = match (found, self.0 - IN_VAIN) {
            (true, _) => MAX.min(self.0 + 1),
            (false, ..0) => MIN,
            (false, less) => less,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_vain_are_left_out_for_a_while() {
        let mut luck = Luck::default();
        assert!(luck.tries());
        luck.learn(false);
        for _ in 0..-MIN {
            assert!(!luck.tries());
        }
        assert!(luck.tries(), "then one is tried");
    }

    #[test]
    fn one_in_vain_among_many_changes_nothing() {
        let mut luck = Luck::default();
        for _ in 0..100 {
            assert!(luck.tries());
            luck.learn(true);
        }
        luck.learn(false);
        assert!(luck.tries());
    }
}
