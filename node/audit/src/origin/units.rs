//! Who set the limits of a process: its unit, systemd's defaults, a login, or
//! the process itself.

use super::{Origin, Setter, in_order};
use crate::Evidence;

/// A unit's own file, the first that there is; and folders of drop-ins.
const FOLDERS: [&str; 3] = ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system"];

/// Who set the limit `name` (`LimitNOFILE`) of the process, whose soft value is
/// `value` now.
pub(crate) fn of_limit(evidence: &Evidence, process: &str, name: &str, value: &str) -> Origin {
    let cgroup = evidence.get(&format!("proc/{process}/cgroup")).unwrap_or_default();
    let Some(unit) = unit_of(cgroup) else {
        return login(evidence, cgroup);
    };
    let mut setters = defaults(evidence, name);
    setters.extend(of_unit(evidence, &unit, name));
    setters.reverse();
    let same = |setter: &Setter| soft(&setter.value) == soft(value);
    let mut rest = setters.into_iter();
    match rest.next() {
        Some(last) if same(&last) => {
            let overruled = rest.filter(|setter| !same(setter)).collect();
            Origin { by: last.place, overruled }
        }
        Some(last) => Origin {
            by: format!("{unit} asked for it itself, or prlimit(1) wrote it"),
            overruled: core::iter::once(last).chain(rest).collect(),
        },
        None if name == "LimitNOFILE" && soft(value) == "1024" => {
            Origin { by: format!("systemd's default: {unit} does not say {name}"), overruled: Vec::new() }
        }
        None => Origin { by: format!("{unit} asked for it itself, or the kernel's default"), overruled: Vec::new() },
    }
}

/// The service that a process is of, by its cgroup's path.
fn unit_of(cgroup: &str) -> Option<String> {
    let own = |line: &str| line.starts_with("0::") || line.contains(":name=systemd:");
    let path = cgroup.lines().rfind(|line| own(line))?;
    path.split('/').rfind(|part| part.ends_with(".service")).map(str::to_owned)
}

/// A process of a session has its limits by PAM.
fn login(evidence: &Evidence, cgroup: &str) -> Origin {
    let session = cgroup.contains("/session-") || cgroup.contains("/user.slice/");
    let asked = evidence.get("etc/security/limits.conf").unwrap_or_default();
    let lines = asked.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'));
    let by = match (session, lines) {
        (true, true) => "a login: /etc/security/limits.conf, or who started it",
        (true, false) => "a login, or who started it",
        (false, _) => "who started it: it is of no unit",
    };
    Origin { by: by.to_owned(), overruled: Vec::new() }
}

/// `DefaultLimitNOFILE=` of the manager, the last that counts at the end.
fn defaults(evidence: &Evidence, name: &str) -> Vec<Setter> {
    let mut paths = vec!["etc/systemd/system.conf".to_owned()];
    let folders = ["etc/systemd/system.conf.d", "run/systemd/system.conf.d", "usr/lib/systemd/system.conf.d"];
    paths.extend(in_order(evidence, &folders, ".conf"));
    assigned(evidence, &paths, &format!("Default{name}"))
}

/// The unit's own file, and its drop-ins in the order of their names.
fn of_unit(evidence: &Evidence, unit: &str, name: &str) -> Vec<Setter> {
    // Of an instance the template's file counts where it has none of its own.
    let template = unit.split_once('@').map(|(name, _)| format!("{name}@.service"));
    let names: Vec<&str> = core::iter::once(unit).chain(template.as_deref()).collect();
    let file = names.iter().find_map(|name| {
        FOLDERS.iter().map(|folder| format!("{folder}/{name}")).find(|path| evidence.get(path).is_some())
    });
    let mut paths: Vec<String> = file.into_iter().collect();
    for name in names.iter().rev() {
        let folders = FOLDERS.map(|folder| format!("{folder}/{name}.d"));
        let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
        paths.extend(in_order(evidence, &folders, ".conf"));
    }
    assigned(evidence, &paths, name)
}

fn assigned(evidence: &Evidence, paths: &[String], name: &str) -> Vec<Setter> {
    let of_file = |path: &String| {
        let lines = evidence.get(path).unwrap_or_default().lines().enumerate();
        let found = lines.filter_map(|(at, line)| {
            let (key, value) = line.trim().split_once('=')?;
            let fits = key.trim() == name && !value.trim().is_empty();
            fits.then(|| Setter { place: format!("/{path}:{} ({name})", at + 1), value: value.trim().to_owned() })
        });
        found.collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_file).collect()
}

/// The soft limit of `1024:524288`, as /proc/PID/limits writes it.
fn soft(value: &str) -> String {
    let first = value.split(':').next().unwrap_or(value).trim();
    if first == "infinity" {
        return "unlimited".to_owned();
    }
    let unit = match first.as_bytes().last() {
        Some(b'K') => 1_u64 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        _ => return first.to_owned(),
    };
    let number =
        first.trim_end_matches(['K', 'M', 'G']).parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.map_or_else(|| first.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Evidence {
        Evidence::of(&[
            ("proc/9/cgroup", "0::/system.slice/nginx.service"),
            ("usr/lib/systemd/system/nginx.service", "[Service]\nLimitNOFILE=4096\n"),
            ("etc/systemd/system/nginx.service.d/limits.conf", "[Service]\nLimitNOFILE=64K:128K\n"),
            ("etc/systemd/system.conf", "[Manager]\n#DefaultLimitNOFILE=1024:524288\n"),
        ])
    }

    #[test]
    fn a_units_last_word_is_its_drop_in() {
        let origin = of_limit(&machine(), "9", "LimitNOFILE", "65536");
        assert_eq!(origin.by, "/etc/systemd/system/nginx.service.d/limits.conf:2 (LimitNOFILE)");
        assert_eq!(origin.overruled[0].place, "/usr/lib/systemd/system/nginx.service:2 (LimitNOFILE)");
        let own = of_limit(&machine(), "9", "LimitNOFILE", "100000");
        assert!(own.by.contains("asked for it itself") && own.overruled.len() == 2, "{own:?}");
    }

    #[test]
    fn without_a_word_of_the_unit_it_is_systemd_or_a_login() {
        let plain = Evidence::of(&[("proc/9/cgroup", "0::/system.slice/app@2.service")]);
        assert_eq!(
            of_limit(&plain, "9", "LimitNOFILE", "1024").by,
            "systemd's default: app@2.service does not say LimitNOFILE"
        );
        let template = plain.with("etc/systemd/system/app@.service", "[Service]\nLimitMEMLOCK=infinity");
        assert_eq!(
            of_limit(&template, "9", "LimitMEMLOCK", "unlimited").by,
            "/etc/systemd/system/app@.service:2 (LimitMEMLOCK)"
        );
        let session = Evidence::of(&[
            ("proc/9/cgroup", "0::/user.slice/user-0.slice/session-3.scope"),
            ("etc/security/limits.conf", "# no\n* soft nofile 9\n"),
        ]);
        assert!(of_limit(&session, "9", "LimitNOFILE", "9").by.contains("limits.conf"));
        assert!(of_limit(&Evidence::default(), "9", "LimitNOFILE", "9").by.contains("no unit"));
    }
}
