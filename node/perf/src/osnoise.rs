//! The kernel's own tracer of noise, as a witness: its tracepoints tell what
//! interrupts, softirqs and threads took of a core, each without what interrupted
//! it. Its threads, which loop on the cores by themselves, stay away.

use crate::{Tracefs, Why};

/// The tracer's folder and its names: Documentation/trace/osnoise-tracer.rst.
const CORES: &str = "osnoise/cpus";
const OPTIONS: &str = "osnoise/options";
const WORKLOAD: &str = "OSNOISE_WORKLOAD";
const NO_WORKLOAD: &str = "NO_OSNOISE_WORKLOAD";

/// The tracer while it runs, in an instance of its own. Dropped, it leaves the
/// kernel as it was.
#[derive(Debug)]
pub struct Osnoise {
    tracefs: Tracefs,
    instance: String,
    before: Vec<(&'static str, String)>,
}

impl Osnoise {
    /// Starts it on these cores.
    ///
    /// # Errors
    /// Why it cannot run.
    pub fn start(cores: &[u16]) -> Result<Self, Why> {
        let tracefs = Tracefs::open()?;
        if !tracefs.read("available_tracers")?.split_ascii_whitespace().any(|tracer| tracer == "osnoise") {
            return Err("this kernel has no tracer osnoise".to_owned());
        }
        let options = tracefs.read(OPTIONS).unwrap_or_default();
        if !options.split_ascii_whitespace().any(|option| option == WORKLOAD || option == NO_WORKLOAD) {
            return Err("before Linux 6.3 it has loops of its own on the cores".to_owned());
        }
        if let Some(busy) = running(&tracefs) {
            return Err(format!("{busy} runs already, for somebody else"));
        }
        let before = tracefs.read(CORES)?;
        let instance = format!("instances/nearside-{}", std::process::id());
        tracefs.make(&instance).map_err(|why| format!("an instance of tracefs: {why}"))?;
        let mut this = Self { tracefs, instance, before: vec![(CORES, before)] };
        let word =
            if options.split_ascii_whitespace().any(|option| option == WORKLOAD) { WORKLOAD } else { NO_WORKLOAD };
        this.before.push((OPTIONS, word.to_owned()));
        let list: Vec<String> = cores.iter().map(u16::to_string).collect();
        this.tracefs.write(OPTIONS, NO_WORKLOAD)?;
        this.tracefs.write(CORES, &list.join(","))?;
        this.tracefs.write(&format!("{}/current_tracer", this.instance), "osnoise")?;
        Ok(this)
    }
}

impl Osnoise {
    /// Whether this kernel has it.
    #[must_use]
    pub fn is_there() -> bool {
        let tracers = Tracefs::open().and_then(|tracefs| tracefs.read("available_tracers")).unwrap_or_default();
        tracers.split_ascii_whitespace().any(|tracer| tracer == "osnoise")
    }
}

/// The tracer that would be disturbed: osnoise and timerlat have one setting for
/// all instances.
fn running(tracefs: &Tracefs) -> Option<String> {
    let mut places = vec![String::new()];
    places.extend(tracefs.list("instances").into_iter().map(|name| format!("instances/{name}/")));
    places.into_iter().find_map(|place| {
        let tracer = tracefs.read(&format!("{place}current_tracer")).ok()?;
        let tracer = tracer.trim();
        (tracer == "osnoise" || tracer == "timerlat").then(|| tracer.to_owned())
    })
}

impl Drop for Osnoise {
    fn drop(&mut self) {
        // Whatever of it is refused, the rest is put back.
        let _ = self.tracefs.write(&format!("{}/current_tracer", self.instance), "nop");
        let _ = self.tracefs.remove(&self.instance);
        for (file, text) in self.before.iter().rev() {
            let _ = self.tracefs.write(file, text.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_and_is_gone_or_says_why_not() {
        let core = crate::thread::allowed().expect("the kernel tells")[0];
        let list = |tracefs: &Tracefs| tracefs.list("instances");
        match Osnoise::start(&[core]) {
            Ok(running) => {
                let tracefs = Tracefs::open().expect("it was there");
                assert_eq!(tracefs.read(CORES).expect("a list").trim(), core.to_string());
                assert!(Osnoise::start(&[core]).is_err_and(|why| why.contains("already")));
                let name = running.instance.clone();
                drop(running);
                assert!(!list(&tracefs).iter().any(|one| name.ends_with(one)));
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
