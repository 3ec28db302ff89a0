//! Which request comes when: each as often as it is there.

use crate::plan::{Request, Weighted};

/// Requests that come before all begin anew, at most.
pub const ORDER_LIMIT: u64 = 4 << 20;

/// The requests in turn. Where some are there more often than others, there are rounds: the first has all of them, each
/// further one those that are there once more, in the order of the file.
#[derive(Debug)]
pub struct Order {
    /// Empty where each comes once.
    rounds: Vec<u16>,
    requests: usize,
}

/// How many requests come before all begin anew.
pub fn length(requests: &[Weighted<Request>]) -> u64 {
    let divisor = requests.iter().fold(0, |divisor, one| divide(divisor, one.weight)).max(1);
    requests.iter().map(|one| u64::from(one.weight / divisor)).sum()
}

/// The greatest that divides both; zero is divided by all.
const fn divide(one: u32, other: u32) -> u32 {
    let (mut one, mut other) = (one, other);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Order {
    /// Of requests that were checked: [`ORDER_LIMIT`] is kept, and there are 65,536 at most.
    pub fn new(requests: &[Weighted<Request>]) -> Self {
        let divisor = requests.iter().fold(0, |divisor, one| divide(divisor, one.weight)).max(1);
        let mut rounds = Vec::new();
        if requests.iter().any(|one| one.weight != divisor) {
            let times = |(number, one): (usize, &Weighted<Request>)| (number as u16, one.weight / divisor);
            let mut left: Vec<(u16, u32)> = requests.iter().enumerate().map(times).collect();
            for round in 0.. {
                left.retain(|(_, times)| *times > round);
                if left.is_empty() {
                    break;
                }
                rounds.extend(left.iter().map(|(number, _)| *number));
            }
        }
        Self { rounds, requests: requests.len() }
    }

    /// The number of the request that comes at this place, from zero on.
    pub fn at(&self, place: usize) -> u16 {
        match self.rounds.len() {
            // Requests are 65,536 at most.
            0 => (place % self.requests.max(1)) as u16,
            all => self.rounds[place % all],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(weights: &[u32]) -> Vec<Weighted<Request>> {
        weights.iter().map(|weight| Weighted { weight: *weight, item: Request::get("a", "/") }).collect()
    }

    fn order(weights: &[u32]) -> Vec<u16> {
        let requests = requests(weights);
        let order = Order::new(&requests);
        let all = length(&requests) as usize;
        assert!((0..all).all(|place| order.at(place) == order.at(place + all)));
        (0..all).map(|place| order.at(place)).collect()
    }

    #[test]
    fn each_comes_as_often_as_it_is_there() {
        assert_eq!(order(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(order(&[7, 7]), [0, 1]);
        assert_eq!(order(&[5, 1]), [0, 1, 0, 0, 0, 0]);
        assert_eq!(order(&[10, 2]), [0, 1, 0, 0, 0, 0]);
        assert_eq!(order(&[1, 3, 0, 2]), [0, 1, 3, 1, 3, 1]);
        assert_eq!(length(&requests(&[u32::MAX, 1])), 1 << 32);
    }
}
