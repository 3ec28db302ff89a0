//! Which of the threads that look does what.
//!
//! One of them does all, as long as it comes back soon. Where it does not, the others are woken, and go on
//! with what waits: a file system that holds up whoever asks it (FUSE, a file server that is away, a disk
//! that fails) holds up a thread, and no path that lies elsewhere. So that it never holds up all, each device
//! has fewer of them than it leaves to the others: of four, the first that hangs has two, the next one, and
//! one more the last.

use super::Task;
use std::collections::VecDeque;

/// Threads that look.
pub const LOOKERS: usize = 4;

/// What is being done, and what waits for its device.
#[derive(Debug)]
pub struct Desk {
    /// Devices that threads are at work on, one for each of these.
    busy: Vec<u64>,
    /// Taken, and of devices that have as many threads as they get.
    parked: VecDeque<Task>,
}

impl Desk {
    pub fn new() -> Self {
        Self { busy: Vec::with_capacity(LOOKERS), parked: VecDeque::new() }
    }

    /// The next for a thread that has nothing to do, which is at work on it from now on. `more` are those that
    /// nobody has taken yet.
    pub fn next(&mut self, mut more: impl FnMut() -> Option<Task>) -> Option<Task> {
        let parked = (0..self.parked.len()).find(|at| self.may_begin(self.parked[*at].device));
        let task = match parked {
            Some(at) => self.parked.remove(at),
            None => loop {
                let Some(task) = more() else { break None };
                if self.may_begin(task.device) {
                    break Some(task);
                }
                self.parked.push_back(task);
            },
        }?;
        self.busy.push(task.device);
        Some(task)
    }

    /// A thread is done with what it had of this device.
    pub fn end(&mut self, device: u64) {
        if let Some(at) = self.busy.iter().position(|other| *other == device) {
            self.busy.swap_remove(at);
        }
    }

    /// Whether no thread is at work.
    pub fn is_at_rest(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether another thread may be held up by this device: it leaves more than it has.
    fn may_begin(&self, device: u64) -> bool {
        let of_device = self.busy.iter().filter(|other| **other == device).count();
        let free = LOOKERS.saturating_sub(self.busy.len());
        of_device == 0 || of_device < free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Job;

    fn task(device: u64) -> Task {
        Task { device, job: Job::Reopen }
    }

    /// What threads are given of these, until none is left or has nothing to do.
    fn begun(desk: &mut Desk, devices: &[u64]) -> Vec<u64> {
        let mut line: VecDeque<_> = devices.iter().map(|device| task(*device)).collect();
        let mut begun = Vec::new();
        while desk.busy.len() < LOOKERS {
            let Some(task) = desk.next(|| line.pop_front()) else { break };
            begun.push(task.device);
        }
        begun
    }

    #[test]
    fn devices_that_hang_leave_a_thread_to_the_next() {
        let mut desk = Desk::new();
        assert_eq!(begun(&mut desk, &[1; 50]), [1; 2]);
        assert_eq!(begun(&mut desk, &[1, 2, 1, 2, 2]), [2]);
        assert_eq!(begun(&mut desk, &[1, 2, 3]), [3]);
        // Whoever comes back goes on with what waited, the oldest first.
        desk.end(3);
        assert_eq!(begun(&mut desk, &[4]), [4]);
        desk.end(4);
        desk.end(1);
        assert_eq!(desk.next(|| None).map(|task| task.device), Some(1));
    }

    #[test]
    fn nothing_is_left_where_nobody_is_at_work() {
        let mut desk = Desk::new();
        let mut line: VecDeque<_> = [1, 1, 1, 2, 1, 2].into_iter().map(task).collect();
        let mut done = 0;
        while let Some(Task { device, .. }) = desk.next(|| line.pop_front()) {
            // Another thread has one at times.
            if done % 2 == 0
                && let Some(other) = desk.next(|| line.pop_front())
            {
                desk.end(other.device);
                done += 1;
            }
            desk.end(device);
            done += 1;
        }
        assert!(desk.is_at_rest() && desk.parked.is_empty());
        assert_eq!(done, 6);
    }

    #[test]
    fn one_thread_is_given_all_in_order() {
        let mut desk = Desk::new();
        let mut line: VecDeque<_> = (0..9).map(|at| task(at / 3)).collect();
        for at in 0..9 {
            let task = desk.next(|| line.pop_front()).unwrap();
            assert_eq!(task.device, at / 3);
            desk.end(task.device);
        }
    }
}
