//! Requests that were recorded: alike ones are one, and what is left out is counted by its reason.

use super::{REQUESTS_LIMIT, Request, UrlsError, Weighted};
use std::collections::{BTreeMap, HashMap};

/// So many reasons are told apart; what comes behind them has one together.
const REASONS_LIMIT: usize = 32;

/// So many are told, those of most entries first.
const REASONS_TOLD: usize = 5;

/// What makes two requests one: all of a request that is sent.
type Key = (String, String, Vec<(String, String)>, Vec<u8>);

/// Requests of a record, as they are read.
pub struct Recorded<'a> {
    like: &'a Request,
    /// What an entry is: a line, or one of an archive; and several.
    unit: (&'static str, &'static str),
    entries: u64,
    taken: u64,
    requests: Vec<Weighted<Request>>,
    places: HashMap<Key, usize>,
    left_out: BTreeMap<String, (u64, usize)>,
}

impl<'a> Recorded<'a> {
    pub fn new(like: &'a Request, unit: (&'static str, &'static str)) -> Self {
        Self {
            like,
            unit,
            entries: 0,
            taken: 0,
            requests: Vec::new(),
            places: HashMap::new(),
            left_out: BTreeMap::new(),
        }
    }

    /// Takes an entry at a place (a line, or its number), or why it is none.
    pub fn take(&mut self, place: usize, entry: Result<Request, String>) {
        self.entries += 1;
        let entry = entry.and_then(|request| match request.encode(false) {
            Ok(_) => Ok(request),
            Err(why) => Err(format!("not to be sent ({why})")),
        });
        match entry {
            Ok(request) => {
                self.taken += 1;
                self.add(request);
            }
            Err(why) => {
                let full = self.left_out.len() >= REASONS_LIMIT && !self.left_out.contains_key(&why);
                let why = if full { "other reasons".to_owned() } else { why };
                self.left_out.entry(why).or_insert((0, place)).0 += 1;
            }
        }
    }

    fn add(&mut self, item: Request) {
        let key = (item.method.clone(), item.path.clone(), item.headers.clone(), item.body.clone());
        let next = self.requests.len();
        let place = *self.places.entry(key).or_insert(next);
        match self.requests.get_mut(place) {
            Some(one) => one.weight = one.weight.saturating_add(1),
            None => self.requests.push(Weighted { weight: 1, item }),
        }
    }

    /// The requests, each with its number of entries as its weight, and what is said of them.
    ///
    /// # Errors
    /// If there is none.
    pub fn finish(mut self) -> Result<(Vec<Weighted<Request>>, String), UrlsError> {
        let (different, mut rare) = (self.requests.len(), 0);
        if different > REQUESTS_LIMIT {
            // What was asked for most is most of the load.
            self.requests.sort_by_key(|one| core::cmp::Reverse(one.weight));
            rare = self.requests.drain(REQUESTS_LIMIT..).map(|one| u64::from(one.weight)).sum();
        }
        let mut out = self.reasons();
        if rare > 0 {
            out.push(format!("beyond the {REQUESTS_LIMIT} requests that were asked for most: {rare}"));
        }
        let out = out.join("; ");
        if self.requests.is_empty() {
            let line = self.left_out.values().map(|(_, line)| *line).min().unwrap_or(1);
            let why = format!("of {} {} none is a request to {}: {out}", self.entries, self.unit.1, self.like.host);
            return Err(UrlsError { line, why });
        }
        let left_out = if out.is_empty() { String::new() } else { format!("; left out: {out}") };
        let told = format!(
            "{} of {} {} are taken, as {} different requests, each as often as it is there{left_out}",
            self.taken - rare,
            self.entries,
            self.unit.1,
            self.requests.len()
        );
        Ok((self.requests, told))
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<_> = self.left_out.iter().collect();
        reasons.sort_by_key(|(_, (count, _))| core::cmp::Reverse(*count));
        let told = |(why, (count, place)): &(&String, &(u64, usize))| match count {
            1 => format!("{why}: 1 ({} {place})", self.unit.0),
            _ => format!("{why}: {count} (the first: {} {place})", self.unit.0),
        };
        let mut out: Vec<String> = reasons.iter().take(REASONS_TOLD).map(told).collect();
        let more: u64 = reasons.iter().skip(REASONS_TOLD).map(|(_, (count, _))| count).sum();
        if more > 0 {
            out.push(format!("{} more reasons: {more}", reasons.len() - REASONS_TOLD));
        }
        out
    }
}
