//! What an experiment's file may say. The same types read the file, write it
//! beside the results as it was run, and give the schema that
//! `nearside lab schema` prints.

use crate::Failure;
use crate::procedure::{Procedure, ProcedureSettings};
use crate::procedures::{
    accept_order, accept_queue, allocator, bypass, command, internet, media, offload, pace, scaling, steer_queue,
};
use environment::shown_command;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of files that this program reads.
pub const SCHEMA: u32 = 1;

/// The most rounds that may be asked for: each keeps its runs in memory.
pub const MAX_ROUNDS: u32 = 1_000;

/// An experiment. Exactly one of the tables at the end says what it does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// The version of this form: 1.
    pub schema: u32,
    /// Lower-case letters, digits, dots and dashes; names the results' folder.
    pub name: String,
    /// A line for lists and headings.
    pub title: String,
    /// What it shows, and what is expected of it.
    #[serde(default)]
    pub about: String,
    /// Measured rounds, each with every arm once. Fewer than 5 give no
    /// confidence interval.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// Rounds before them that are not counted.
    #[serde(default = "default_warmup")]
    pub warmup: u32,
    /// Decides the order of arms, and all that is drawn at random.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The arm that the others are compared with; the first if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Run the baseline a second time in each round (A/A).
    #[serde(default = "default_control")]
    pub control: bool,
    /// Differences up to this many percent do not matter: arms within it are
    /// equivalent.
    #[serde(default = "default_margin")]
    pub margin_percent: f64,
    /// Which worker takes which connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_order: Option<accept_order::Settings>,
    /// What queues cost when all workers are busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<accept_queue::Settings>,
    /// nginx with one malloc and another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<allocator::Settings>,
    /// Servers that sleep, poll or hold frames back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<pace::Settings>,
    /// A flow over an emulated path, by our stack and by Linux's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internet: Option<internet::Settings>,
    /// Films that are larger than memory, to players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<media::Settings>,
    /// Bulk transfers with segmentation offload and without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<offload::Settings>,
    /// nginx, and Nearside on both data paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_vs_bypass: Option<bypass::Settings>,
    /// Silos and connections, over every link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<scaling::Settings>,
    /// What steering costs when all silos are busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer_queue: Option<steer_queue::Settings>,
    /// Programs of yours that print their figures as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<command::Settings>,
}

const fn default_rounds() -> u32 {
    5
}

const fn default_warmup() -> u32 {
    1
}

const fn default_seed() -> u64 {
    1
}

const fn default_control() -> bool {
    true
}

const fn default_margin() -> f64 {
    2.0
}

/// A change on the command line: `rounds=3`, `accept-queue.workers=4`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set {
    path: Vec<String>,
    value: String,
}

impl core::str::FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write key=value, as in accept-queue.workers=4")?;
        let path: Vec<String> = key.trim().split('.').map(|part| part.trim().to_owned()).collect();
        if path.iter().any(String::is_empty) {
            return Err("write key=value, as in accept-queue.workers=4".to_owned());
        }
        Ok(Self { path, value: value.trim().to_owned() })
    }
}

impl Experiment {
    /// Reads a file's text; `name` is for messages.
    ///
    /// # Errors
    /// With the line, and what is allowed there.
    pub fn parse(name: &str, text: &str, sets: &[Set]) -> Result<Self, Failure> {
        // The text as it is first, because only it has lines to name.
        let mut experiment: Self = toml::from_str(text).map_err(|why| format!("{name}: {why}"))?;
        if !sets.is_empty() {
            let mut table: toml::Table = toml::from_str(text).map_err(|why| format!("{name}: {why}"))?;
            for set in sets {
                set.apply(&mut table)?;
            }
            experiment = table.try_into().map_err(|why: toml::de::Error| format!("--set: {}", why.message()))?;
        }
        experiment.check().map_err(|why| format!("{name}: {why}"))?;
        Ok(experiment)
    }

    /// The file's text, as it is kept beside the results.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // All keys are strings, and no table comes before a value.
        toml::to_string(self).unwrap_or_default()
    }

    /// As it is kept: commands without what their headers say, which may be a secret.
    #[must_use]
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        for side in kept.command.iter_mut().flat_map(|command| &mut command.arms) {
            side.command = shown_command(core::mem::take(&mut side.command));
            side.build = side.build.take().map(shown_command);
        }
        kept
    }

    /// The schema of files, as JSON Schema.
    #[must_use]
    pub fn schema() -> String {
        serde_json::to_string_pretty(&schemars::schema_for!(Self)).unwrap_or_default() + "\n"
    }

    /// The tables that say what is done: each kind of experiment has a row.
    fn tables(&self) -> Vec<(&'static str, Option<&dyn ProcedureSettings>)> {
        fn given<S: ProcedureSettings>(settings: &Option<S>) -> Option<&dyn ProcedureSettings> {
            settings.as_ref().map(|settings| settings as &dyn ProcedureSettings)
        }
        vec![
            ("accept-order", given(&self.accept_order)),
            ("accept-queue", given(&self.accept_queue)),
            ("allocator", given(&self.allocator)),
            ("pace", given(&self.pace)),
            ("internet", given(&self.internet)),
            ("media", given(&self.media)),
            ("offload", given(&self.offload)),
            ("kernel-vs-bypass", given(&self.kernel_vs_bypass)),
            ("scaling", given(&self.scaling)),
            ("steer-queue", given(&self.steer_queue)),
            ("command", given(&self.command)),
        ]
    }

    /// The procedure that it asks for.
    ///
    /// # Errors
    /// If its settings make no sense, or the machine lacks what all arms need.
    pub fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        let given = self.tables().into_iter().find_map(|(_, given)| given);
        given.ok_or("the experiment names nothing to do")?.procedure()
    }

    /// What each type cannot say by itself.
    ///
    /// # Errors
    /// With what is allowed.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema is {}, and this program reads {SCHEMA}", self.schema));
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if self.name.is_empty() || self.name.len() > 60 || !self.name.chars().all(plain) || self.name.starts_with('.') {
            return Err("name: write lower-case letters, digits, dots and dashes, at most 60".to_owned());
        }
        if !(1..=MAX_ROUNDS).contains(&self.rounds) || self.warmup > MAX_ROUNDS {
            return Err(format!("rounds: write 1 to {MAX_ROUNDS}; warmup: at most {MAX_ROUNDS}"));
        }
        if !(0.0..=100.0).contains(&self.margin_percent) {
            return Err("margin-percent: write 0 to 100".to_owned());
        }
        let tables = self.tables();
        if tables.iter().filter(|(_, given)| given.is_some()).count() != 1 {
            let names: Vec<&str> = tables.iter().map(|(name, _)| *name).collect();
            return Err(format!("write exactly one of the tables {}", names.join(", ")));
        }
        Ok(())
    }
}

impl Set {
    fn apply(&self, table: &mut toml::Table) -> Result<(), String> {
        let Some((last, parents)) = self.path.split_last() else { return Ok(()) };
        let mut place = table;
        for (depth, key) in parents.iter().enumerate() {
            let here = self.path[..=depth].join(".");
            let next = place.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            place = next.as_table_mut().ok_or_else(|| format!("--set: {here} is no table"))?;
        }
        place.insert(last.clone(), self.value());
        Ok(())
    }

    /// A value as TOML writes it, or else a text without its quotes.
    fn value(&self) -> toml::Value {
        let line = format!("value = {}", self.value);
        let parsed: Option<toml::Table> = toml::from_str(&line).ok();
        let value = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
        value.unwrap_or_else(|| toml::Value::String(self.value.clone()))
    }
}
