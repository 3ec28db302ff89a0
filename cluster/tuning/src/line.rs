//! One line of a manifest, and what shows that it is in force.

use crate::catalogue::{Known, See};

/// For which nodes alone a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Only {
    /// With processors of AMD.
    Amd,
    /// Of Intel.
    Intel,
    /// Of ARM.
    Arm,
    /// With a real-time kernel.
    RealTime,
}

/// What a node's audit is to have for a line to be in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sign {
    /// The rule of this name finds this value.
    Row {
        /// The rule's name.
        key: String,
        /// The value, as it is written.
        wanted: String,
    },
    /// The rule of this name finds the cores of the node that are not these.
    Rest {
        /// The rule's name.
        key: String,
        /// The isolated cores.
        isolated: Vec<u32>,
    },
    /// The rule of this name finds these cores among others.
    Includes {
        /// The rule's name.
        key: String,
        /// The cores.
        cores: Vec<u32>,
    },
    /// What the rule of this name finds has this word.
    With {
        /// The rule's name.
        key: &'static str,
        /// The word.
        word: String,
    },
    /// What the rule of this name finds does not have this word.
    Without {
        /// The rule's name.
        key: &'static str,
        /// The word.
        word: String,
    },
    /// So many huge pages, or more.
    Pages {
        /// Of this size in KiB.
        kib: u64,
        /// How many.
        count: u64,
        /// Of this NUMA domain; of all together.
        domain: Option<String>,
    },
    /// Whether the kernel is one for real time.
    RealTimeKernel(bool),
}

/// How it can be seen whether a line is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Visible {
    /// By itself it changes nothing.
    Nothing,
    /// By nothing in a node's audit, for this reason.
    Unseen(&'static str),
    /// By this.
    By(Sign),
}

/// One line of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The file that it stands in.
    pub file: String,
    /// Where, from 1; of a text that is quoted, the line at which it begins.
    pub line: usize,
    /// The object: its kind and name.
    pub object: String,
    /// The place within the object.
    pub place: String,
    /// What stands there.
    pub value: String,
    /// What it does; none where that is not known.
    pub what: Option<&'static str>,
    /// The field of the PerformanceProfile that it comes of; empty where it comes of none.
    pub input: &'static str,
    /// For which nodes alone it is.
    pub only: Option<Only>,
    /// How it can be seen.
    pub shown: Visible,
}

/// Where lines stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Where<'a> {
    pub file: &'a str,
    pub line: usize,
    pub object: &'a str,
}

impl Where<'_> {
    /// A line of which this is known.
    pub fn line(self, place: &str, value: &str, known: Option<&Known>) -> Line {
        let (what, input) = known.map_or((None, ""), |known| (Some(known.what), known.input));
        Line {
            file: self.file.to_owned(),
            line: self.line,
            object: self.object.to_owned(),
            place: place.to_owned(),
            value: value.to_owned(),
            what,
            input,
            only: None,
            shown: known.map_or(Visible::Unseen("it is not known what it does"), |known| shown(known.see, value)),
        }
    }
}

/// How it can be seen that something has this value.
fn shown(see: See, value: &str) -> Visible {
    match see {
        See::Nothing => Visible::Nothing,
        See::Unseen(why) => Visible::Unseen(why),
        See::Row(key) => Visible::By(Sign::Row { key: key.to_owned(), wanted: value.to_owned() }),
        See::Is(key, wanted) => Visible::By(Sign::Row { key: key.to_owned(), wanted: wanted.to_owned() }),
        See::Word(key) => Visible::By(Sign::With { key, word: value.to_owned() }),
        See::Off(key, word) => Visible::By(Sign::Without { key, word: word.to_owned() }),
        See::Cores(key) => match audit::cpu_list(value) {
            Some(cores) => Visible::By(Sign::Includes { key: key.to_owned(), cores }),
            None => Visible::Unseen("it is no list of cores"),
        },
        See::IfTrue(key, wanted) if value == "true" => {
            Visible::By(Sign::Row { key: key.to_owned(), wanted: wanted.to_owned() })
        }
        // That something is not asked for forbids nobody to have it.
        See::IfTrue(..) => Visible::Nothing,
        See::RealTime => match value {
            "" => Visible::Nothing,
            "true" | "realtime" => Visible::By(Sign::RealTimeKernel(true)),
            "false" | "default" => Visible::By(Sign::RealTimeKernel(false)),
            _ => Visible::Unseen("no rule of the audit reads it"),
        },
    }
}
