//! The machine before a measurement: judged as a forwarder's, and its cores listened to.

use crate::child::{own, program};
use demo::child::Interrupt;
use packet::verdict::Validity;
use say::{Failure, eprintln};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Time for the audit, and beyond the time that noise is listened to.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was looked at before.
#[derive(Debug)]
pub struct Before {
    /// What `nearside node audit --role forwarder` prints.
    pub audit: Value,
    audit_status: i32,
    /// What `nearside node noise` prints, or why nobody listened.
    noise: Result<Value, String>,
}

impl Before {
    /// The audit of the role forwarder, and the noise on `cores` for so long; what the programs say goes to `folder`.
    ///
    /// # Errors
    /// If a program cannot start or does not end, and if the user interrupts.
    pub fn look(cores: &[u16], time: Duration, folder: &Path, interrupt: &Interrupt) -> Result<Self, Failure> {
        eprintln!("judging this machine as a forwarder");
        let words = own(&["node", "audit", "--role", "forwarder", "--json"])?;
        let mut audit = program("audit", None, words).start(folder)?;
        let status = audit.ended(PATIENCE, interrupt)?;
        let audit = serde_json::from_str(&audit.output()).unwrap_or(Value::Null);
        let noise = if time.is_zero() {
            Err("--noise 0s".to_owned())
        } else if cores.is_empty() {
            Err("no core is named (--core, --forwarder-core)".to_owned())
        } else {
            let list = cores.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            eprintln!("listening to the noise on cores {list}");
            let millis = format!("{}ms", time.as_millis());
            let words = own(&["node", "noise", "--cores", &list, "--for", &millis, "--json"])?;
            let mut beside = program("noise", None, words).start(folder)?;
            match beside.ended(time + PATIENCE, interrupt) {
                Ok(_) => serde_json::from_str(&beside.output()).map_err(|_| "node noise gave no report".to_owned()),
                Err(why) => Err(why.to_string()),
            }
        };
        Ok(Self { audit, audit_status: status.code().unwrap_or(-1), noise })
    }

    /// The noise as results have it.
    #[must_use]
    pub fn noise_json(&self) -> Value {
        match &self.noise {
            Ok(noise) => noise.clone(),
            Err(why) => json!({ "left_out": why }),
        }
    }

    /// Both, a line each.
    #[must_use]
    pub fn told(&self) -> String {
        self.lines().join("\n") + "\n"
    }

    /// The same one by one.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let noise = match &self.noise {
            Ok(noise) => quiet(noise),
            Err(why) => format!("left out ({why})"),
        };
        vec![format!("node audit, role forwarder: {}", audited(self)), format!("node noise: {noise}")]
    }

    /// Names in a verdict what speaks against the machine, and that nobody listened to it.
    pub fn name(&self, verdict: &mut Validity) {
        if self.audit_status != 0 {
            verdict.names(format!("node audit: {}", audited(self)));
        }
        if let Err(why) = &self.noise {
            verdict.names(format!("node noise: left out ({why})"));
        }
    }
}

/// The audit in a line.
fn audited(before: &Before) -> String {
    let rows = before.audit.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = match before.audit_status {
        0 => "nothing is worse than the kernel's defaults",
        4 => "something is worse than the kernel's defaults",
        5 => "something is dangerous",
        _ => "no answer",
    };
    format!("{word} ({} rules; nearside node audit --role forwarder has them)", rows.len())
}

/// The noise in a line: each core's worst.
fn quiet(noise: &Value) -> String {
    let cores = noise.get("cores").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |core: &Value| {
        let at = |key: &str| core.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let lost = 100.0 * at("gap_nanos") / 1e9 / at("seconds").max(1e-9);
        let longest = at("longest_nanos") / 1e3;
        format!(
            "core {} lost {lost:.3} % of its time, {longest:.0} us at most, {:.0} ms stolen",
            at("core"),
            at("stolen_ms")
        )
    };
    let told: Vec<String> = cores.iter().map(one).collect();
    if told.is_empty() { "no report".to_owned() } else { told.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_speaks_against_the_machine_is_named_in_the_verdict() {
        let of = |audit_status, noise| {
            let mut verdict = Validity::default();
            let before = Before { audit: Value::Null, audit_status, noise };
            before.name(&mut verdict);
            (before.lines(), verdict.reasons)
        };
        let (lines, reasons) = of(5, Err("no core is named (--core, --forwarder-core)".to_owned()));
        assert!(
            reasons[0].contains("something is dangerous") && reasons[1].contains("left out (no core"),
            "{reasons:?}"
        );
        assert!(lines[0].contains("something is dangerous") && lines[1].contains("left out (no core"), "{lines:?}");
        assert!(of(0, Ok(json!({ "cores": [] }))).1.is_empty());
    }
}
