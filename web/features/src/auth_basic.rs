//! `auth_basic`: who asks needs a password.

use crate::key::{KeyError, KeyPlace, KeyValue, SiteTable, SiteWriter, key, needed};
use crate::level::ErrorLevel;
use crate::row::DirectiveRow;
use crate::rule::{Context, ValueForm};
use crate::value::Value;
use crate::view::RequestView;
use crate::{Explaining, Feature, FeatureSettings};
use passwords::base64::decode;
use passwords::{Credentials, Verdict};
use std::sync::Arc;

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[
        DirectiveRow::new("auth_basic", "auth_basic", ValueForm::Value, |settings, words| {
            rules(settings).realm = Some(words.value(0)?);
            Ok(())
        })
        .within(PLACES)
        .shown(
            "is one
             is \"two $host\"
             is off
             with auth_basic_user_file users;
             ask GET text.txt
             ask GET text.txt | Authorization: Basic cGxhaW46c2VjcmV0
             seen www-authenticate",
        ),
        DirectiveRow::new("auth_basic", "auth_basic_user_file", ValueForm::OwnOnce, |settings, words| {
            // The file lies beside the configuration.
            let path = words.compiling.path(words.word(0));
            rules(settings).file = Some(words.compiling.value(&path)?);
            Ok(())
        })
        .within(PLACES)
        .shown(
            "is users
             is others
             is none
             is $arg_users
             with auth_basic a;
             ask GET text.txt?users=users | Authorization: Basic cGxhaW46c2VjcmV0
             seen status",
        ),
        DirectiveRow::refused_unless("core", "auth_delay", ValueForm::Time, ("0", "answers are not delayed yet")),
    ],
    keys: &[
        key("password", KeyPlace::ALL, KeyValue::TableOrOff(KeyPlace::Password), "Who asks needs a password")
            .by(write_password),
        key("realm", &[KeyPlace::Password], KeyValue::Text, "What the client's user is asked for"),
        key(
            "file",
            &[KeyPlace::Password],
            KeyValue::Text,
            "Users and hashes of passwords, one on a line, as htpasswd writes them",
        ),
    ],
    explain: Some(explain),
    ..Feature::NONE
};

const PLACES: Context = Context::PLACES.and(Context::LIMIT_EXCEPT);

/// What a place says of passwords: with both it asks for one.
#[derive(Clone, Debug, Default)]
pub struct AuthBasic {
    realm: Option<Value>,
    file: Option<Value>,
}

/// What is known of a request's user.
#[derive(Debug, Default)]
pub struct KnownUser {
    /// What the verifier said of the password.
    pub verdict: Option<Verdict>,
    /// The file of users that the password was found in.
    known_to: Option<Vec<u8>>,
}

/// What becomes of a request where a password is asked for.
#[derive(Debug)]
pub enum Login {
    /// Its password is right.
    Passes,
    /// It is asked for one (status 401).
    Challenged,
    /// It is answered with this status.
    Refused(u16),
    /// These are to be verified, and it comes again with the verdict.
    Asks(Credentials),
}

/// The rules of a block, made its own.
fn rules(settings: &mut FeatureSettings) -> &mut AuthBasic {
    Arc::make_mut(settings.auth_basic.get_or_insert_default())
}

impl FeatureSettings {
    /// The realm and the file of users, where a password is asked for: of the realm, what
    /// no request makes `off` may be another value.
    #[must_use]
    pub fn asks_for_password(&self) -> Option<(&Value, &Value)> {
        let AuthBasic { realm, file } = self.auth_basic.as_deref()?;
        let realm = realm.as_ref().filter(|realm| realm.constant() != Some(b"off"))?;
        Some((realm, file.as_ref()?))
    }
}

fn explain(settings: &FeatureSettings, explaining: &mut dyn Explaining) {
    if settings.asks_for_password().is_some() {
        explaining.keeps_off("auth_basic", "who asks is looked at in each request");
        explaining.slows("auth_basic", "a password is verified on a thread, and known for 10 s then");
    }
}

/// `password`
fn write_password(site: &dyn SiteTable, out: &mut dyn SiteWriter) -> Result<(), KeyError> {
    let Some((at, password)) = site.table("password") else {
        // It is false.
        out.put((site.place("password").unwrap_or(0), "password"), "auth_basic", &["off"]);
        return Ok(());
    };
    let file = needed(&*password, at, "file", "password")?;
    let realm = password.text("realm").map_or_else(|| "password".to_owned(), |(_, realm)| realm);
    out.put((at, "password"), "auth_basic", &[&realm]);
    out.put((at, "password"), "auth_basic_user_file", &[&file]);
    Ok(())
}

/// What becomes of a request whose user is to be found in the file that a value names.
pub fn login(file: &Value, request: &mut dyn RequestView) -> Login {
    let file = request.value(file);
    let part = &mut request.parts().auth_basic;
    if part.known_to.as_deref() == Some(&*file) {
        return Login::Passes;
    }
    let verdict = part.verdict.take();
    let sent = request.field("authorization").and_then(basic_credentials);
    match verdict {
        None => {}
        Some(Verdict::Right) => {
            request.parts().auth_basic.known_to = Some(file);
            return Login::Passes;
        }
        Some(verdict @ (Verdict::Mismatch | Verdict::NoUser | Verdict::Unusable)) => {
            let (user, _) = sent.unwrap_or_default();
            request.tell(ErrorLevel::ERROR, &|| match verdict {
                Verdict::NoUser => [b"user \"", &user[..], b"\" was not found in \"", &file, b"\""].concat(),
                _ => [b"user \"", &user[..], b"\": password mismatch"].concat(),
            });
            return Login::Challenged;
        }
        Some(Verdict::NoFile) => {
            request.tell(ErrorLevel::ERROR, &|| {
                [b"open() \"", &file[..], b"\" failed (2: No such file or directory)"].concat()
            });
            return Login::Refused(403);
        }
        Some(Verdict::Unreadable) => return Login::Refused(500),
    }
    let Some((user, password)) = sent else {
        let text = b"no user/password was provided for basic authentication";
        request.tell(ErrorLevel::INFO, &|| text.to_vec());
        return Login::Challenged;
    };
    Login::Asks(Credentials { file: file.into(), user: user.into(), password: password.into() })
}

/// User and password in a field `Authorization`, if it has them (RFC 7617
/// section 2).
#[must_use]
pub fn basic_credentials(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = field.split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let mut user = decode(&rest[blanks..], false)?;
    let colon = user.iter().position(|byte| *byte == b':').filter(|colon| *colon > 0)?;
    let password = user.split_off(colon + 1);
    user.pop();
    Some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_nginx_reads_them() {
        let read = |field: &str| {
            let (user, password) = basic_credentials(field.as_bytes())?;
            Some(format!("{}|{}", String::from_utf8_lossy(&user), String::from_utf8_lossy(&password)))
        };
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").as_deref(), Some("Aladdin|open sesame"));
        assert_eq!(read("basic   QWxhZGRpbjpvcGVuIHNlc2FtZQ").as_deref(), Some("Aladdin|open sesame"));
        assert_eq!(read("BASIC YTo=").as_deref(), Some("a|"));
        assert_eq!(read("Basic YTpiOmM=").as_deref(), Some("a|b:c"));
        for field in
            ["", "Basic", "Basic ", "Basic  ", "Basic YQ==", "Basic OmI=", "Basic YTpi!", "Bearer YTpi", "Basic\tYTpi"]
        {
            assert_eq!(read(field), None, "{field}");
        }
    }
}
