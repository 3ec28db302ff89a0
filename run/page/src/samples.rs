//! Samples that a silo stores when somebody asks for them.

use super::{ASKED, CACHE_LINE, Layout, Mapping, SeriesShape, WORD, Writer};
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use wire::Time;

/// A silo answers no more often: whoever asks all the time costs it as much.
const BETWEEN_ANSWERS: Duration = Duration::from_millis(250);

/// Words before the samples: sequence, question, time, how many there are, samples that follow, how
/// long it took.
pub(super) const ANSWER_WORDS: usize = CACHE_LINE / WORD;

/// How many samples a page has room for, and how many words each has. What they mean is their
/// writer's and their reader's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleShape {
    /// Samples of each silo.
    pub count: usize,
    /// Words of each.
    pub words: usize,
}

impl SampleShape {
    pub(super) fn is_bounded(&self) -> bool {
        self.count.checked_mul(self.words.max(1)).is_some_and(|words| words <= SeriesShape::WORDS_LIMIT)
    }
}

/// What a silo answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Samples {
    /// The question that this answers, or a later one.
    pub number: u64,
    /// When, on the silo's clock.
    pub time: Time,
    /// How long it took.
    pub took: Duration,
    /// How many there are of what this has some of.
    pub total: u64,
    /// The words of each sample.
    pub samples: Vec<Vec<u64>>,
}

impl Samples {
    pub(super) fn of(words: &[u64], shape: &SampleShape) -> Option<Self> {
        let [sequence, number, time, total, count, took, ..] = *words else { return None };
        if sequence == 0 {
            return None;
        }
        let count = usize::try_from(count).unwrap_or(0).min(shape.count);
        let samples = words.get(ANSWER_WORDS..)?.chunks_exact(shape.words.max(1)).take(count);
        let samples = samples.map(<[u64]>::to_vec).collect();
        Some(Self { number, time: Time::from_nanos(time), took: Duration::from_nanos(took), total, samples })
    }

    /// Whether this answers a question.
    #[must_use]
    pub const fn answers(&self, number: u64) -> bool {
        // Questions are counted without end.
        self.number.wrapping_sub(number).cast_signed() >= 0
    }
}

/// What a [`Writer`] has answered.
#[derive(Debug)]
pub(super) struct Answers {
    /// The word that the answer starts at, and how many there are.
    words: core::ops::Range<usize>,
    shape: SampleShape,
    /// The last question that was answered; 0: none.
    answered: u64,
    /// The next is answered from then on.
    next: Time,
}

impl Answers {
    pub fn new(layout: &Layout, silo: usize) -> Self {
        let start = layout.samples(silo) / WORD;
        let words = start..start + layout.samples_len() / WORD;
        Self { words, shape: layout.samples, answered: 0, next: Time::ZERO }
    }

    fn room<'m>(&self, mapping: &'m Mapping) -> &'m [core::sync::atomic::AtomicU64] {
        mapping.words().get(self.words.clone()).unwrap_or_default()
    }
}

impl Writer {
    /// The number of a question that is not answered yet, if there is one and it is time to.
    #[inline]
    #[must_use]
    pub fn asked(&self, now: Time) -> Option<u64> {
        let asked = self.mapping.words().get(ASKED)?.load(Ordering::Relaxed);
        let is_due = asked != self.answers.answered && self.answers.shape.count > 0 && now >= self.answers.next;
        is_due.then_some(asked)
    }

    /// Most samples of an answer.
    #[must_use]
    pub const fn most_samples(&self) -> usize {
        self.answers.shape.count
    }

    /// Answers a question: `total` are there, and `give` gives some of them, one by one. What has
    /// fewer words than a sample is filled up with zeros, and what is beyond the room is left out.
    pub fn answer(
        &mut self,
        clock: impl Fn() -> Time,
        number: u64,
        total: u64,
        give: impl FnOnce(&mut dyn FnMut(&[u64])),
    ) {
        let (now, shape) = (clock(), self.answers.shape);
        self.answers.answered = number;
        self.answers.next = now + BETWEEN_ANSWERS;
        let Some((head, rest)) = self.answers.room(&self.mapping).split_at_checked(ANSWER_WORDS) else { return };
        let sequence = head[0].load(Ordering::Relaxed) & !1;
        head[0].store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let mut places = rest.chunks_exact(shape.words.max(1)).take(shape.count);
        let mut count = 0;
        give(&mut |sample| {
            let Some(place) = places.next() else { return };
            let words = sample.iter().copied().chain(core::iter::repeat(0));
            place.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            count += 1;
        });
        let took = u64::try_from(clock().since(now).as_nanos()).unwrap_or(u64::MAX);
        for (word, value) in head[1..].iter().zip([number, now.as_nanos(), total, count, took]) {
            word.store(value, Ordering::Relaxed);
        }
        head[0].store(sequence.wrapping_add(2), Ordering::Release);
    }
}
