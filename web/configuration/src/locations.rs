//! Which location of a host a path belongs to, as nginx decides it: an exact
//! one; else the longest that begins the path, and in it those that it holds;
//! else, unless that one forbids it, the first expression that matches; else
//! that longest one.

/// What a location is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// This path alone (`=`).
    Exact(Vec<u8>),
    /// Paths that begin so.
    Prefix(Vec<u8>),
    /// Paths that begin so, whatever expressions match (`^~`).
    FirmPrefix(Vec<u8>),
    /// Paths that this expression matches (`~`, `~*`): the caller's number for
    /// it, and its text.
    Expression(u32, Vec<u8>),
    /// No path: others lead here by this name (`@`).
    Named(Vec<u8>),
}

/// A location, and those that it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// What it is for.
    pub pattern: Pattern,
    /// What is found: the caller's number for it.
    pub place: u32,
    /// Whether it is found without the slash that its path ends with, too, where no other
    /// stands there.
    pub slashless: bool,
    /// Locations that it holds.
    pub inner: Vec<Location>,
}

/// Locations that cannot stand so; the numbers are their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocationError {
    /// Another of its kind has its pattern.
    Duplicate(u32),
    /// An exact one holds it, which has no room: its path is one.
    InExact(u32),
    /// A named one holds it.
    InNamed(u32),
    /// Named, and held by another.
    NamedWithin(u32),
    /// It does not begin as the one that holds it: with its path, or with the
    /// text of its expression, which nginx compares, too.
    Outside(u32),
}

/// The locations of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Locations {
    level: Level,
    named: Vec<(Box<[u8]>, u32)>,
}

/// Those that one location holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Level {
    /// By their paths, ascending.
    paths: Vec<Entry>,
    /// In the order in which they are tried.
    expressions: Vec<(u32, Found)>,
}

/// A path that locations stand at.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    path: Box<[u8]>,
    exact: Option<u32>,
    prefix: Option<(bool, Found)>,
    /// The longest other entry that begins this path.
    above: Option<u32>,
}

/// A location that was found, and those that it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    place: u32,
    inner: Option<Box<Level>>,
}

/// What looking in a level came to.
enum Outcome {
    /// This one, and no expression further out is asked.
    Final(u32),
    /// This one, unless an expression further out matches.
    Best(u32),
    Nothing,
}

impl Locations {
    /// Those of a host, in the order in which they are written.
    ///
    /// # Errors
    /// One that cannot stand where it does.
    pub fn compile(locations: &[Location]) -> Result<Self, LocationError> {
        let level = Level::compile(locations, None)?;
        let mut named: Vec<(Box<[u8]>, u32)> = Vec::new();
        for location in locations {
            if let Pattern::Named(name) = &location.pattern {
                named.push((name.as_slice().into(), location.place));
            }
        }
        // The later of two is refused.
        named.sort();
        match named.windows(2).find(|two| two[0].0 == two[1].0) {
            Some(two) => Err(LocationError::Duplicate(two[1].1)),
            None => Ok(Self { level, named }),
        }
    }

    /// The place of the location of `path`, which is decoded and has no dot
    /// segments. `matches` tells whether an expression matches it.
    pub fn find(&self, path: &[u8], mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        match self.level.find(path, &mut matches) {
            Outcome::Final(place) | Outcome::Best(place) => Some(place),
            Outcome::Nothing => None,
        }
    }

    /// The place of the location of this name, without its `@`.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<u32> {
        self.named.binary_search_by(|(known, _)| (**known).cmp(name)).ok().map(|at| self.named[at].1)
    }
}

impl Level {
    fn compile(locations: &[Location], outer: Option<&Pattern>) -> Result<Self, LocationError> {
        let mut level = Self::default();
        for location in locations {
            let place = location.place;
            match (outer, &location.pattern) {
                (Some(Pattern::Exact(_)), _) => return Err(LocationError::InExact(place)),
                (Some(Pattern::Named(_)), _) => return Err(LocationError::InNamed(place)),
                (Some(_), Pattern::Named(_)) => return Err(LocationError::NamedWithin(place)),
                (
                    Some(Pattern::Prefix(outer) | Pattern::FirmPrefix(outer) | Pattern::Expression(_, outer)),
                    Pattern::Exact(path) | Pattern::Prefix(path) | Pattern::FirmPrefix(path),
                ) if !path.starts_with(outer) => return Err(LocationError::Outside(place)),
                _ => {}
            }
            let inner = Self::compile(&location.inner, Some(&location.pattern))?;
            let inner = (!inner.is_empty()).then(|| Box::new(inner));
            let found = Found { place, inner };
            let duplicate = match &location.pattern {
                Pattern::Exact(path) => level.entry(path).exact.replace(place).is_some(),
                Pattern::Prefix(path) => level.entry(path).prefix.replace((false, found)).is_some(),
                Pattern::FirmPrefix(path) => level.entry(path).prefix.replace((true, found)).is_some(),
                Pattern::Expression(number, _) => {
                    level.expressions.push((*number, found));
                    false
                }
                Pattern::Named(_) => false,
            };
            if duplicate {
                return Err(LocationError::Duplicate(place));
            }
        }
        for location in locations.iter().filter(|location| location.slashless) {
            level.add_slashless(location, outer);
        }
        level.connect();
        Ok(level)
    }

    /// Has it found without its slash, if that is not another's path; only below `outer`.
    fn add_slashless(&mut self, location: &Location, outer: Option<&Pattern>) {
        let (Pattern::Exact(path) | Pattern::Prefix(path) | Pattern::FirmPrefix(path)) = &location.pattern else {
            return;
        };
        let Some(path) = path.strip_suffix(b"/") else { return };
        let leads_out = match outer {
            Some(Pattern::Prefix(outer) | Pattern::FirmPrefix(outer)) => !path.starts_with(outer),
            _ => false,
        };
        if !leads_out && self.paths.binary_search_by(|entry| (*entry.path).cmp(path)).is_err() {
            self.entry(path).exact = Some(location.place);
        }
    }

    const fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.expressions.is_empty()
    }

    fn entry(&mut self, path: &[u8]) -> &mut Entry {
        let at = self.paths.binary_search_by(|entry| (*entry.path).cmp(path));
        let at = at.unwrap_or_else(|at| {
            self.paths.insert(at, Entry { path: path.into(), exact: None, prefix: None, above: None });
            at
        });
        &mut self.paths[at]
    }

    /// Gives each entry the longest other that begins it.
    fn connect(&mut self) {
        for at in 1..self.paths.len() {
            // The entry before begins this one, or one of those above it does,
            // or none.
            let mut above = Some(at as u32 - 1);
            while let Some(other) = above
                && !self.paths[at].path.starts_with(&self.paths[other as usize].path)
            {
                above = self.paths[other as usize].above;
            }
            self.paths[at].above = above;
        }
    }

    fn find(&self, path: &[u8], matches: &mut impl FnMut(u32) -> bool) -> Outcome {
        let at = match self.paths.as_slice() {
            // Many hosts have one alone.
            [only] => match (only.exact, only.path.len() == path.len()) {
                _ if !path.starts_with(&only.path) => None,
                (Some(place), true) => return Outcome::Final(place),
                _ => Some(0),
            },
            paths => match paths.binary_search_by(|entry| (*entry.path).cmp(path)) {
                Ok(at) => match paths[at].exact {
                    Some(place) => return Outcome::Final(place),
                    None => Some(at),
                },
                Err(at) => at.checked_sub(1),
            },
        };
        let mut best = Outcome::Nothing;
        if let Some((firm, found)) = at.and_then(|at| self.longest(at, path)) {
            best = match &found.inner {
                Some(inner) => match inner.find(path, matches) {
                    Outcome::Nothing => Outcome::Best(found.place),
                    within => within,
                },
                None => Outcome::Best(found.place),
            };
            if *firm || matches!(best, Outcome::Final(_)) {
                return best;
            }
        }
        match self.expressions.iter().find(|(number, _)| matches(*number)) {
            Some((_, found)) => Outcome::Final(found.within(path, matches)),
            None => best,
        }
    }

    /// The longest prefix of `path` that a location stands at; `from` is the last
    /// entry that is not above it.
    fn longest(&self, from: usize, path: &[u8]) -> Option<&(bool, Found)> {
        let mut at = Some(from as u32);
        while let Some(entry) = at.map(|at| &self.paths[at as usize]) {
            if let Some(prefix) = entry.prefix.as_ref().filter(|_| path.starts_with(&entry.path)) {
                return Some(prefix);
            }
            at = entry.above;
        }
        None
    }
}

impl Found {
    /// The place of the location that it holds for `path`, else its own.
    fn within(&self, path: &[u8], matches: &mut impl FnMut(u32) -> bool) -> u32 {
        match self.inner.as_ref().map(|inner| inner.find(path, matches)) {
            Some(Outcome::Final(place) | Outcome::Best(place)) => place,
            Some(Outcome::Nothing) | None => self.place,
        }
    }
}

#[cfg(test)]
mod tests;
