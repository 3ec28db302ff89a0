//! Jobs that wait for a place, by device.

use super::{Job, Task};
use std::collections::VecDeque;

/// Jobs of all devices that are under way at a time: reads of a ring, and, apart from them, what threads do.
pub const PLACES: usize = 64;

/// Those of one device: one that does not answer leaves places to the others.
const OF_DEVICE_MAX: usize = PLACES / 4 * 3;

/// Jobs that have no place yet, and how many have one. Devices take turns.
///
/// A device is here for as long as something of it waits or is under way: they are at most as many as
/// there are streams and paths that are looked for, and as many as are mounted.
#[derive(Debug, Default)]
pub struct DeviceLines {
    devices: Vec<Device>,
    /// Whose turn it is.
    next: usize,
    under_way: usize,
    waiting: usize,
}

#[derive(Debug)]
struct Device {
    /// `st_dev` (inode(7)).
    number: u64,
    line: VecDeque<Job>,
    under_way: usize,
}

impl Device {
    fn may_start(&self) -> bool {
        self.under_way < OF_DEVICE_MAX && !self.line.is_empty()
    }
}

impl DeviceLines {
    /// One more of this device, behind its others.
    pub fn push(&mut self, number: u64, job: Job) {
        let at = self.devices.iter().position(|device| device.number == number).unwrap_or_else(|| {
            self.devices.push(Device { number, line: VecDeque::new(), under_way: 0 });
            self.devices.len() - 1
        });
        self.devices[at].line.push_back(job);
        self.waiting += 1;
    }

    /// The next that has a place: it is under way from now on.
    pub fn start(&mut self) -> Option<Task> {
        if self.under_way >= PLACES || self.waiting == 0 {
            return None;
        }
        let count = self.devices.len();
        let at = (0..count).map(|step| (self.next + step) % count).find(|at| self.devices[*at].may_start())?;
        let device = &mut self.devices[at];
        let job = device.line.pop_front()?;
        device.under_way += 1;
        let task = Task { device: device.number, job };
        (self.under_way, self.waiting, self.next) = (self.under_way + 1, self.waiting - 1, (at + 1) % count);
        Some(task)
    }

    /// One of this device is done.
    pub fn end(&mut self, number: u64) {
        let Some(at) = self.devices.iter().position(|device| device.number == number) else { return };
        let device = &mut self.devices[at];
        device.under_way = device.under_way.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(1);
        if device.under_way == 0 && device.line.is_empty() {
            self.devices.swap_remove(at);
        }
    }

    /// Whether any has no place yet.
    #[inline]
    pub const fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether [`DeviceLines::start`] has one.
    #[inline]
    pub fn may_start(&self) -> bool {
        self.waiting > 0 && self.under_way < PLACES && self.devices.iter().any(Device::may_start)
    }

    /// How many of this device wait, or are under way.
    pub fn of(&self, number: u64) -> usize {
        let device = self.devices.iter().find(|device| device.number == number);
        device.map_or(0, |device| device.under_way + device.line.len())
    }

    /// How many wait, or are under way.
    #[inline]
    pub const fn len(&self) -> usize {
        self.under_way + self.waiting
    }

    /// Whether nothing waits and nothing is under way: what is done with is forgotten.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(lines: &mut DeviceLines) -> usize {
        core::iter::from_fn(|| lines.start()).count()
    }

    #[test]
    fn a_device_that_does_not_answer_leaves_places_to_others() {
        let mut lines = DeviceLines::default();
        (0..1_000).for_each(|_| lines.push(1, Job::Reopen));
        assert_eq!(started(&mut lines), OF_DEVICE_MAX);
        assert!(!lines.may_start());
        for number in 2..1_000 {
            lines.push(number, Job::Reopen);
            assert!(lines.may_start());
            assert_eq!(started(&mut lines), 1);
            lines.end(number);
            assert_eq!(lines.devices.len(), 1);
        }
        // The first one answers.
        lines.end(1);
        assert_eq!(started(&mut lines), 1);
    }

    #[test]
    fn devices_take_turns_and_all_places_are_used() {
        let mut lines = DeviceLines::default();
        (0..100).for_each(|_| lines.push(1, Job::Reopen));
        (0..100).for_each(|_| lines.push(2, Job::Reopen));
        assert_eq!(started(&mut lines), PLACES);
        let under_way: Vec<_> = lines.devices.iter().map(|device| device.under_way).collect();
        assert_eq!(under_way, [PLACES / 2; 2]);
        let mut ended = 0;
        while !lines.is_empty() {
            let number = lines.devices.iter().find(|device| device.under_way > 0).unwrap().number;
            lines.end(number);
            ended += 1;
            started(&mut lines);
        }
        assert_eq!((ended, lines.devices.len()), (200, 0));
    }
}
