//! The error log of the process: its own lines go to servers of logs, too.

use crate::plan::{ServePlan, SyslogErrors};
use server::SyslogLines;

/// Has the servers that `plan` names told of lines from now on, and no others. Their
/// sockets are made now: a process that has given its rights up can make none.
pub fn tell_syslog(plan: &ServePlan) {
    let one = |log: &SyslogErrors| (log.level, SyslogLines::new(&log.place));
    let mut servers: Vec<(u8, SyslogLines)> = plan.error_log.syslog.iter().map(one).collect();
    if servers.is_empty() {
        say::to_nobody_else();
        return;
    }
    say::also_to(move |level, date, line| {
        for (_, server) in servers.iter_mut().filter(|(most, _)| level <= *most) {
            server.send(level.saturating_sub(1), date, line);
        }
    });
}
