//! The same variety for wrk, by a script.

use super::Heads;
use core::fmt::Write;

/// Clients that one script stands for, at most: LuaJIT takes 65,536 constants
/// in a function.
pub const WRK_USERS_LIMIT: u32 = 10_000;

/// A script for `wrk --script`: requests of `users` clients (at least 1, at
/// most [`WRK_USERS_LIMIT`]) for `paths`, by turns, made before the run. wrk
/// asks for a request without saying on which connection, so that the clients
/// take turns on all of them. Headers of `wrk --header` are sent, too. It
/// defines `init` and `request`, so that another script with `done` may stand
/// behind it.
#[must_use]
pub fn wrk_script(heads: Heads, paths: &[String], users: u32, seed: u64) -> String {
    let mut out = String::from("-- Requests of many clients, by turns.\nlocal fields = {\n");
    let users = if heads == Heads::Equal { 1 } else { users.clamp(1, WRK_USERS_LIMIT) };
    for user in 0..users {
        let number = super::number(seed, app::ConnId::new(user, 1));
        quoted(&mut out, &String::from_utf8_lossy(&heads.fields(number)));
    }
    out.push_str("}\nlocal paths = {\n");
    for path in paths {
        quoted(&mut out, path);
    }
    // As browsers have it, before the rest.
    let own = if heads == Heads::Browser { "Connection: keep-alive\\r\\n" } else { "" };
    let _ = write!(
        out,
        "}}
local requests, at = {{}}, 0

function init(args)
    local own = \"{own}\"
    for name, value in pairs(wrk.headers) do
        if name == \"Connection\" then own = \"\" end
    end
    for name, value in pairs(wrk.headers) do
        if name ~= \"Host\" then own = own .. name .. \": \" .. value .. \"\\r\\n\" end
    end
    for n = 1, math.max(#fields, #paths) do
        requests[n] = \"GET \" .. paths[(n - 1) % #paths + 1] .. \" HTTP/1.1\\r\\nHost: \" .. wrk.headers[\"Host\"]
            .. \"\\r\\n\" .. own .. fields[(n - 1) % #fields + 1] .. \"\\r\\n\"
    end
end

function request()
    at = at % #requests + 1
    return requests[at]
end
"
    );
    out
}

/// A string of Lua, with a comma behind it.
fn quoted(out: &mut String, text: &str) {
    out.push_str("    \"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\r' => out.push_str("\\r"),
            '\n' => out.push_str("\\n"),
            _ => out.push(c),
        }
    }
    out.push_str("\",\n");
}

#[cfg(test)]
mod tests {
    use super::super::number;
    use super::*;
    use app::ConnId;

    #[test]
    fn the_script_for_wrk_has_the_same_clients() {
        let paths = ["/f/00".to_owned(), "/f/01".to_owned()];
        let script = wrk_script(Heads::Browser, &paths, 3, 5);
        assert_eq!(script.matches("User-Agent: ").count(), 3);
        let number = number(5, ConnId::new(0, 1));
        let fields = String::from_utf8(Heads::Browser.fields(number)).unwrap();
        let cookie = fields.lines().find(|line| line.starts_with("Cookie: ")).unwrap();
        assert!(script.contains(&format!("{cookie}\\r\\n")), "{cookie}");
        assert!(
            script.contains("\"/f/01\"") && script.contains("function request()") && script.contains("function init(")
        );
        assert!(script.is_ascii() && !script.contains('\r'));
        assert_eq!(wrk_script(Heads::Equal, &paths, 3, 5).matches("User-Agent").count(), 0);
        let all = wrk_script(Heads::Short, &paths, u32::MAX, 5);
        assert_eq!(all.lines().skip(2).take_while(|line| line.starts_with("    \"")).count(), WRK_USERS_LIMIT as usize);
    }
}
