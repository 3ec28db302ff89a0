//! Several requests, drawn by weight.

use crate::heads::Heads;
use crate::own::{Front, Own};
use crate::plan::{Expect, Plan, PlanError};
use crate::random::Random;
use app::{Body, ConnId, Net};
use semantics::Method;

/// A length and a status that no plan has: any will do.
pub const ANY_LENGTH: u64 = u64::MAX;
/// See [`ANY_LENGTH`].
pub const ANY_STATUS: u16 = 0;

/// A request as it is sent, and what its response is to look like.
#[derive(Debug)]
pub struct Kind {
    pub body: Body,
    /// The same, as the last on its connection.
    pub last: Option<Body>,
    /// Where heads differ, its own lines of them.
    front: Front,
    pub method: Method,
    pub expect_length: u64,
    pub expect_status: u16,
}

/// The kinds, and a table to draw from.
#[derive(Debug)]
pub struct Mix {
    kinds: Vec<Kind>,
    /// For each kind, the share of its own column that is its own, in 2^-32,
    /// and whose the rest is: Vose (1991), "A linear algorithm for generating
    /// random numbers with a given distribution". One draw whatever their
    /// number.
    columns: Vec<(u64, u32)>,
    random: Random,
    /// Where heads differ, the requests of each connection.
    own: Option<Box<Own>>,
}

impl Mix {
    pub fn new(plan: &Plan) -> Result<Self, PlanError> {
        let kind = |request: &crate::plan::Request| {
            let expect: Expect = request.expect.unwrap_or(plan.expect);
            let per_connection = plan.reuse.per_connection();
            let last = plan.reuse.server_closes() && per_connection > Some(1);
            Ok(Kind {
                body: Body::new(request.bytes(plan.reuse)?),
                last: if last { Some(Body::new(request.encode(true)?)) } else { None },
                front: Front::new(plan, request),
                method: Method::from_name(request.method.as_bytes()),
                expect_length: expect.length.unwrap_or(ANY_LENGTH),
                expect_status: expect.status.unwrap_or(ANY_STATUS),
            })
        };
        let kinds: Vec<Kind> = plan.requests.iter().map(|request| kind(&request.item)).collect::<Result<_, _>>()?;
        let own = match plan.heads {
            Heads::Equal => None,
            _ => Some(Box::new(Own::new(plan, kinds.iter().map(|kind| &kind.front))?)),
        };
        let weights: Vec<u32> = plan.requests.iter().map(|request| request.weight).collect();
        // Not the sequence that connections are drawn with.
        let random = Random::new(plan.seed ^ 0x6d69_7800_0000_0000);
        Ok(Self { kinds, columns: columns(&weights), random, own })
    }

    /// Whether all requests are the same bytes.
    pub fn is_single(&self) -> bool {
        self.kinds.len() == 1 && self.own.is_none()
    }

    /// Whether any response answers any of the requests: nothing has to be
    /// kept of which one was sent.
    pub fn is_uniform(&self) -> bool {
        let of = |kind: &Kind| (kind.method, kind.expect_length, kind.expect_status);
        self.kinds.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]))
    }

    /// Sends a request on a connection, the `last` on it or not. Answers its
    /// length.
    #[inline]
    pub fn send<N: Net>(&mut self, net: &mut N, id: ConnId, number: u16, last: bool) -> u32 {
        let kind = &self.kinds[usize::from(number)];
        let (body, range) = match &mut self.own {
            None => {
                let body = kind.last.as_ref().filter(|_| last).unwrap_or(&kind.body);
                (body, 0..body.len())
            }
            Some(own) => own.request(id, kind.front.lines(last)),
        };
        let length = range.end - range.start;
        net.send_body(id, body, range);
        length
    }

    /// The bytes that [`Mix::send`] would send.
    pub fn bytes(&mut self, id: ConnId, number: u16, last: bool) -> &[u8] {
        let kind = &self.kinds[usize::from(number)];
        match &mut self.own {
            None => kind.last.as_ref().filter(|_| last).unwrap_or(&kind.body).as_slice(),
            Some(own) => {
                let (body, range) = own.request(id, kind.front.lines(last));
                &body.as_slice()[range.start as usize..range.end as usize]
            }
        }
    }

    /// A kind, drawn by weight.
    #[inline]
    pub fn draw(&mut self) -> u16 {
        if self.columns.len() == 1 {
            return 0;
        }
        let bits = self.random.bits();
        let column = (((bits >> 32) * self.columns.len() as u64) >> 32) as usize;
        let (own, other) = self.columns[column];
        // The upper half chose the column; the lower is as good as fresh.
        if bits & 0xffff_ffff < own { column as u16 } else { other as u16 }
    }

    pub fn kind(&self, number: u16) -> &Kind {
        &self.kinds[usize::from(number)]
    }
}

/// Vose's table for weights, of which one at least is not zero. In whole
/// numbers: each column holds `sum`, each kind brings `weight × n`.
fn columns(weights: &[u32]) -> Vec<(u64, u32)> {
    let n = weights.len() as u64;
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum::<u64>().max(1);
    let mut left: Vec<u64> = weights.iter().map(|weight| u64::from(*weight) * n).collect();
    let mut columns: Vec<(u64, u32)> = (0..weights.len()).map(|own| (1 << 32, own as u32)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|kind| left[*kind] < sum);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        columns[low] = (((u128::from(left[low]) << 32) / u128::from(sum)) as u64, high as u32);
        left[high] -= sum - left[low];
        if left[high] < sum {
            large.pop();
            small.push(high);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each kind gets of all columns, in 2^-32 of one column.
    fn shares(weights: &[u32]) -> Vec<u64> {
        let mut shares = vec![0; weights.len()];
        for (own, (part, other)) in columns(weights).into_iter().enumerate() {
            shares[own] += part;
            shares[other as usize] += (1 << 32) - part;
        }
        shares
    }

    #[test]
    fn shares_are_as_the_weights() {
        for weights in [vec![1], vec![1, 1], vec![3, 1], vec![0, 5], vec![1, 2, 3, 4, 90], vec![u32::MAX, 1, u32::MAX]]
        {
            let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
            let n = weights.len() as u128;
            for (share, weight) in shares(&weights).into_iter().zip(&weights) {
                let exact = ((u128::from(*weight) * n) << 32) / u128::from(sum);
                assert!(u128::from(share).abs_diff(exact) <= n, "{weights:?}: {share} for {exact}");
                assert!(*weight > 0 || share == 0, "{weights:?}");
            }
        }
        let many: Vec<u32> = (0..65_536).map(|n| n % 7).collect();
        let of = shares(&many);
        assert!((0..7).all(|n| (n == 0) == (of[n] == 0)));
    }
}
