//! An explanation for people.

use super::{Answers, ExplainedPlace, Explanation, KeptOff, Whereabouts};
use core::fmt;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for listener in &self.listeners {
            write!(f, "listens on {}", listener.address)?;
            if let Some(accept) = &listener.accept {
                let many = if accept.queues == 1 { "queue" } else { "queues" };
                write!(f, " (accept model {}, {} {many})", accept.model, accept.queues)?;
            }
            write!(f, ":")?;
            listener.servers.iter().try_for_each(|name| write!(f, " {}", name_of(name)))?;
            writeln!(f)?;
        }
        for server in &self.servers {
            write!(f, "server {}", name_of(&server.name))?;
            place(f, &server.settings)?;
            for one in &server.places {
                write!(f, "  {}", one.label)?;
                place(f, one)?;
            }
        }
        for accept in self.listeners.iter().filter_map(|listener| listener.accept.as_ref()).take(1) {
            accept.why.iter().try_for_each(|why| writeln!(f, "{why}"))?;
        }
        if let Some(path) = self.unsaid_log {
            writeln!(f, "requests are logged to {path}, because no access_log says otherwise, as by nginx")?;
        }
        if !self.no_effect.is_empty() {
            writeln!(f, "no effect here:")?;
        }
        for one in &self.no_effect {
            writeln!(f, "  {} at {}: {}", one.directive, one.at, one.why)?;
        }
        Ok(())
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(path) => write!(f, "{}:{}", path.display(), self.line),
            None => f.write_str("the command line"),
        }
    }
}

fn place(f: &mut fmt::Formatter<'_>, place: &ExplainedPlace) -> fmt::Result {
    match &place.at {
        Some(at) => writeln!(f, " at {at}")?,
        None => writeln!(f)?,
    }
    let what = match place.answers {
        Answers::Root | Answers::Alias => "files",
        Answers::Return => "a response of its own",
        Answers::StubStatus => "numbers of connections",
        Answers::EmptyGif => "an empty picture",
        Answers::Proxy | Answers::Grpc => "what an upstream answers",
        Answers::Gateway => "what a program answers",
    };
    let kind = match place.answers {
        Answers::Root => Some("root"),
        Answers::Alias => Some("alias"),
        _ => None,
    };
    match (kind, &place.folder) {
        (Some(kind), Some(folder)) => writeln!(f, "    {what}, {kind} {folder}")?,
        (Some(kind), None) => writeln!(f, "    {what}, {kind} by request")?,
        (None, _) => writeln!(f, "    {what}")?,
    }
    if place.ready {
        writeln!(f, "    answers are given ready where they are held in memory")?;
    } else {
        writeln!(f, "    no answer is given ready: {}", reasons(&place.kept_off))?;
    }
    if place.ready && !place.kept_off_for_some.is_empty() {
        writeln!(f, "    some are not: {}", reasons(&place.kept_off_for_some))?;
    }
    for one in &place.slower {
        writeln!(f, "    slower here: {}: {}", one.directive, one.why)?;
    }
    if place.alias_without_slash {
        writeln!(
            f,
            "    careful: the location ends without a slash and its alias with one, so that a path that goes on \
             with ../ leads out of the folder: not here, but in nginx"
        )?;
    }
    Ok(())
}

fn reasons(reasons: &[KeptOff]) -> String {
    reasons.iter().map(|one| one.why.as_str()).collect::<Vec<_>>().join("; ")
}

fn name_of(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}
