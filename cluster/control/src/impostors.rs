//! Who had the token of one worker, and said to be another.

use core::fmt;
use messages::Token;

/// So many are looked into, and counted: finding out whose token it was takes a hash for each worker.
const REFUSED_LIMIT: u64 = 100;

/// Somebody who had one worker's token said to be another, and was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Whose token it was.
    pub whose: u32,
    /// Which worker it said to be: any number.
    pub said: u32,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "who has the token of worker {} said to be worker {}, and was refused", self.whose, self.said)
    }
}

/// Those who were refused so far.
#[derive(Debug, Default)]
pub(crate) struct Impostors {
    /// How many, the first of them.
    pub refused: u64,
    /// Who that was, each once.
    pub who: Vec<Refused>,
}

impl Impostors {
    /// Somebody said to be this worker, with this token, which is not that worker's: if it is that of another worker of
    /// the test with the token `of`, that is counted.
    pub fn note(&mut self, (said, token): (u32, &Token), of: &Token, workers: u32) {
        if self.refused >= REFUSED_LIMIT {
            return;
        }
        let Some(whose) = (0..workers).find(|worker| *token == of.of_worker(*worker)) else { return };
        self.refused += 1;
        let refused = Refused { whose, said };
        if !self.who.contains(&refused) {
            self.who.push(refused);
        }
    }
}
