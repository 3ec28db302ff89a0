//! Whether a line is in force on a node.

use crate::facts::NodeFacts;
use crate::line::{Line, Sign, Visible};
use audit::{cpu_list, cpu_mask};

/// What came of a line on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InForce {
    /// It is in force: this was found.
    Yes(String),
    /// It is not: this was found in its place.
    No(String),
    /// It cannot be seen, for this reason.
    Unseen(String),
    /// It is for other nodes, or changes nothing by itself.
    NotMeant,
}

impl InForce {
    /// In a word, for results.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Yes(_) => "in-force",
            Self::No(_) => "otherwise",
            Self::Unseen(_) => "unseen",
            Self::NotMeant => "not-meant",
        }
    }
}

impl Line {
    /// Whether it is in force on this node.
    #[must_use]
    pub fn in_force(&self, node: &NodeFacts) -> InForce {
        if self.what.is_some() && self.shown == Visible::Nothing {
            return InForce::NotMeant;
        }
        match self.only.map(|only| node.is(only)) {
            Some(Some(false)) => return InForce::NotMeant,
            Some(None) => return InForce::Unseen("it is not known which processor or kernel that node has".to_owned()),
            Some(Some(true)) | None => {}
        }
        match &self.shown {
            Visible::Nothing => InForce::NotMeant,
            Visible::Unseen(why) => InForce::Unseen((*why).to_owned()),
            Visible::By(sign) => sign.on(node),
        }
    }
}

impl Sign {
    fn on(&self, node: &NodeFacts) -> InForce {
        match self {
            Self::Row { wanted, .. } if wanted.contains("${") => {
                InForce::Unseen(format!("tuned finds {wanted} out on the node itself"))
            }
            Self::Row { key, wanted } => of_rows(node, key, |found| is_same(found, wanted)),
            Self::Rest { key, isolated } => {
                let rest: Vec<u32> = node.cores().iter().copied().filter(|core| !isolated.contains(core)).collect();
                of_rows(node, key, |found| [cpu_list(found), cpu_mask(found)].contains(&Some(rest.clone())))
            }
            Self::Includes { key, cores } => of_rows(node, key, |found| {
                cpu_list(found).is_some_and(|found| cores.iter().all(|core| found.contains(core)))
            }),
            Self::With { key, word } => of_rows(node, key, |found| words(found).any(|one| one == word.as_str())),
            Self::Without { key, word } => of_rows(node, key, |found| words(found).all(|one| one != word.as_str())),
            Self::Pages { kib, count, domain } => pages(node, *kib, *count, domain.as_deref()),
            Self::RealTimeKernel(wanted) => match node.is_real_time() {
                None => InForce::Unseen("its audit does not say which kernel it has".to_owned()),
                Some(found) if found == *wanted => InForce::Yes(node.kernel().to_owned()),
                Some(_) => InForce::No(node.kernel().to_owned()),
            },
        }
    }
}

fn words(found: &str) -> impl Iterator<Item = &str> {
    found.split([' ', ','])
}

/// What a rule found, held against what is wanted of each thing that it is about.
fn of_rows(node: &NodeFacts, key: &str, fits: impl Fn(&str) -> bool) -> InForce {
    let (mut yes, mut unread) = (None, true);
    for (subject, found) in node.rows(key) {
        let Some(found) = found else { continue };
        unread = false;
        let shown = match (subject, found) {
            ("", "") => "not given".to_owned(),
            ("", found) => found.to_owned(),
            (subject, found) => format!("{found} ({subject})"),
        };
        if !fits(found) {
            return InForce::No(shown);
        }
        yes.get_or_insert(shown);
    }
    match yes {
        Some(shown) => InForce::Yes(shown),
        None if unread && node.rows(key).next().is_some() => {
            InForce::Unseen(format!("that node does not have \"{key}\", or nobody may read it"))
        }
        None => InForce::Unseen(format!("its audit has no \"{key}\"")),
    }
}

/// Huge pages, as the audit tells them by domain: `20 of 1048576kB, 0 of 2048kB`.
fn pages(node: &NodeFacts, kib: u64, wanted: u64, domain: Option<&str>) -> InForce {
    let (mut all, mut is_there) = (0_u64, false);
    for (subject, found) in node.rows("huge pages by domain") {
        if domain.is_some_and(|domain| subject.strip_prefix("node") != Some(domain)) {
            continue;
        }
        let of_size = found.into_iter().flat_map(|text| text.split(", ")).filter_map(|part| {
            let (count, size) = part.split_once(" of ")?;
            let is_it = size.strip_suffix("kB").and_then(|size| size.parse().ok()) == Some(kib);
            count.parse::<u64>().ok().filter(|_| is_it)
        });
        for count in of_size {
            (all, is_there) = (all.saturating_add(count), true);
        }
    }
    let found =
        format!("{all} of {kib} KiB{}", domain.map(|domain| format!(" on domain {domain}")).unwrap_or_default());
    match is_there {
        false => InForce::Unseen(format!("its audit does not count huge pages of {kib} KiB there")),
        true if all >= wanted => InForce::Yes(found),
        true => InForce::No(found),
    }
}

/// Whether a value is what is wanted, however it is written.
fn is_same(found: &str, wanted: &str) -> bool {
    // Of `always [madvise] never` it is the one in brackets.
    let chosen = found.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(found, |(chosen, _)| chosen);
    let cores = |text: &str| {
        let is_flag = |part: &&str| part.starts_with(|first: char| first.is_ascii_alphabetic());
        let mut flags: Vec<&str> = text.split(',').take_while(is_flag).collect();
        let skipped: usize = flags.iter().map(|flag| flag.len() + 1).sum();
        flags.sort_unstable();
        Some((flags.join(","), cpu_list(text.get(skipped..)?)?))
    };
    let are_masks = || {
        let digits = |text: &str| text.len() >= 8 && text.bytes().all(|one| one.is_ascii_hexdigit() || one == b',');
        (digits(wanted) || digits(found)) && cpu_mask(found).is_some() && cpu_mask(found) == cpu_mask(wanted)
    };
    chosen == wanted
        || chosen.split_whitespace().eq(wanted.split_whitespace())
        || (cores(found).is_some() && cores(found) == cores(wanted))
        || are_masks()
}
