//! What each directive of a block changes in its settings.

use super::access;
use super::arguments::{argument, count, duration, is_on, told};
use super::layer::{Inherit, Layer, Scope};
use super::{Compiler, Step};
use crate::reader::Directive;
use configuration::autoindex::AutoindexFormat;
use configuration::program::{
    AddedField, Alias, BodyFiles, ContentRules, ErrorPage, ErrorTarget, IfModifiedSince, Root, SymlinkKind,
    SymlinkRules, Target, TryFiles,
};
use configuration::{KeepAliveDisabled, Pattern};
use core::time::Duration;
use features::Value;
use features::units::{number, offset, size, time};
use std::sync::Arc;

/// What a directive does to the block that it stands in.
pub(super) type Setter = fn(&mut Compiler<'_>, &mut Layer, &Directive) -> Step;

/// Declares a setter that sees the block alone.
macro_rules! plain {
    ($name:literal, |$layer:ident, $directive:ident| $what:expr) => {
        ($name, |_, $layer, $directive| {
            $what;
            Ok(())
        })
    };
}

/// Directives of blocks that are compiled: what each does.
pub(super) const SETTERS: &[(&str, Setter)] = &[
    ("root", |compiler, layer, directive| compiler.root(layer, directive)),
    ("alias", |compiler, layer, directive| compiler.root(layer, directive)),
    ("index", |compiler, layer, directive| compiler.index(layer, directive)),
    ("try_files", |compiler, layer, directive| compiler.try_files(layer, directive)),
    ("error_page", |compiler, layer, directive| compiler.error_page(layer, directive)),
    ("add_header", |compiler, layer, directive| compiler.add_field(layer, directive, false)),
    ("add_trailer", |compiler, layer, directive| compiler.add_field(layer, directive, true)),
    ("charset", |compiler, layer, directive| compiler.charset(layer, directive, false)),
    ("source_charset", |compiler, layer, directive| compiler.charset(layer, directive, true)),
    plain!("ssi", |layer, directive| Arc::make_mut(&mut layer.block.ssi).on = is_on(directive)),
    plain!("ssi_silent_errors", |layer, directive| Arc::make_mut(&mut layer.block.ssi).silent = is_on(directive)),
    plain!("ssi_last_modified", |layer, directive| {
        Arc::make_mut(&mut layer.block.ssi).last_modified = is_on(directive);
    }),
    plain!("ssi_value_length", |layer, directive| {
        let length = size(argument(directive, 0)).unwrap_or_default();
        Arc::make_mut(&mut layer.block.ssi).value_length = usize::try_from(length).unwrap_or(usize::MAX);
    }),
    ("ssi_types", |compiler, layer, directive| {
        compiler.media_types((layer, "ssi_types"), directive, |block| &mut Arc::make_mut(&mut block.ssi).types)
    }),
    ("limit_rate", |compiler, layer, directive| {
        layer.block.limit_rate = Some(compiler.rate(directive)?);
        Ok(())
    }),
    ("early_hints", |compiler, layer, directive| {
        let values = directive.arguments.iter().map(|word| compiler.value(word, directive.place));
        let values = values.collect::<Step<Vec<_>>>()?;
        let before = if layer.first("early_hints") { Vec::new() } else { layer.block.early_hints.to_vec() };
        layer.block.early_hints = before.into_iter().chain(values).collect();
        Ok(())
    }),
    ("limit_rate_after", |compiler, layer, directive| {
        layer.block.limit_rate_after = Some(compiler.rate(directive)?);
        Ok(())
    }),
    ("types", |compiler, layer, directive| compiler.types(layer, directive)),
    ("access_log", |compiler, layer, directive| compiler.access_log(layer, directive)),
    ("open_log_file_cache", |compiler, layer, directive| compiler.open_log_files(layer, directive)),
    ("error_log", |compiler, layer, directive| compiler.block_error_log(layer, directive)),
    ("allow", |compiler, layer, directive| compiler.access_rule(layer, directive, true)),
    ("deny", |compiler, layer, directive| compiler.access_rule(layer, directive, false)),
    ("set_real_ip_from", |compiler, layer, directive| compiler.real_ip_from(layer, directive)),
    ("real_ip_header", |compiler, layer, directive| compiler.real_ip_header(layer, directive)),
    plain!("real_ip_recursive", |layer, directive| access::real_ip_recursive(layer, directive)),
    ("valid_referers", |compiler, layer, directive| compiler.valid_referers(layer, directive)),
    ("disable_symlinks", |compiler, layer, directive| compiler.symlinks(layer, directive)),
    ("keepalive_timeout", |compiler, layer, directive| compiler.keep_alive(layer, directive)),
    ("max_ranges", |_, layer, directive| {
        let most = count(directive);
        Arc::make_mut(&mut layer.block.fields).max_ranges = Some(most);
        Ok(())
    }),
    plain!("satisfy", |layer, directive| {
        Arc::make_mut(&mut layer.block.access).any = argument(directive, 0).eq_ignore_ascii_case(b"any");
    }),
    plain!("internal", |layer, _directive| layer.block.internal = true),
    plain!("default_type", |layer, directive| layer.block.default_type = argument(directive, 0).into()),
    plain!("recursive_error_pages", |layer, directive| layer.block.recursive_error_pages = is_on(directive)),
    plain!("add_header_inherit", |layer, directive| layer.inherits.headers = inherit(directive)),
    plain!("add_trailer_inherit", |layer, directive| layer.inherits.trailers = inherit(directive)),
    plain!("chunked_transfer_encoding", |layer, directive| {
        Arc::make_mut(&mut layer.block.fields).chunked = is_on(directive);
    }),
    plain!("etag", |layer, directive| Arc::make_mut(&mut layer.block.fields).etag = is_on(directive)),
    plain!("if_modified_since", |layer, directive| {
        let rule = match argument(directive, 0) {
            b"off" => IfModifiedSince::Off,
            b"before" => IfModifiedSince::Before,
            _ => IfModifiedSince::Exact,
        };
        Arc::make_mut(&mut layer.block.fields).if_modified_since = rule;
    }),
    plain!("override_charset", |layer, directive| {
        Arc::make_mut(&mut layer.block.charset).overrides = is_on(directive);
    }),
    ("charset_types", |compiler, layer, directive| {
        compiler.media_types((layer, "charset_types"), directive, |block| &mut Arc::make_mut(&mut block.charset).types)
    }),
    plain!("log_not_found", |layer, directive| layer.block.log_not_found = is_on(directive)),
    plain!("client_max_body_size", |layer, directive| {
        layer.block.body_max = offset(argument(directive, 0)).unwrap_or_default();
    }),
    plain!("client_body_buffer_size", |layer, directive| {
        let bytes = size(argument(directive, 0)).unwrap_or_default();
        layer.block.body.buffer = u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
    }),
    plain!("client_body_in_file_only", |layer, directive| {
        layer.block.body.in_file = match argument(directive, 0).to_ascii_lowercase().as_slice() {
            b"on" => BodyFiles::Kept,
            b"clean" => BodyFiles::Removed,
            _ => BodyFiles::Long,
        };
    }),
    ("client_body_temp_path", |compiler, layer, directive| compiler.temp_path(layer, directive)),
    plain!("client_body_timeout", |layer, directive| layer.block.connection.body = duration(directive)),
    plain!("lingering_close", |layer, directive| {
        layer.block.connection.lingers = !argument(directive, 0).eq_ignore_ascii_case(b"off");
    }),
    plain!("lingering_time", |layer, directive| layer.block.connection.lingering = duration(directive)),
    plain!("lingering_timeout", |layer, directive| layer.block.connection.lingering_pause = duration(directive)),
    plain!("send_timeout", |layer, directive| layer.block.connection.send = duration(directive)),
    plain!("keepalive_disable", |layer, directive| layer.block.connection.disabled = keep_alive_disabled(directive)),
    plain!("keepalive_requests", |layer, directive| layer.block.connection.requests = count(directive)),
    plain!("keepalive_time", |layer, directive| layer.block.connection.age = duration(directive)),
    plain!("absolute_redirect", |layer, directive| layer.block.redirects.absolute = is_on(directive)),
    plain!("server_name_in_redirect", |layer, directive| layer.block.redirects.server_name = is_on(directive)),
    plain!("port_in_redirect", |layer, directive| layer.block.redirects.port = is_on(directive)),
    // `build` tells nothing more here: there is no name of a build.
    plain!("server_tokens", |layer, directive| {
        layer.block.server_tokens = !argument(directive, 0).eq_ignore_ascii_case(b"off");
    }),
    plain!("autoindex", |layer, directive| layer.block.autoindex.on = is_on(directive)),
    plain!("autoindex_exact_size", |layer, directive| layer.block.autoindex.exact_size = is_on(directive)),
    plain!("autoindex_localtime", |layer, directive| layer.block.autoindex.local_time = is_on(directive)),
    plain!("autoindex_format", |layer, directive| {
        layer.block.autoindex.format = match argument(directive, 0).to_ascii_lowercase().as_slice() {
            b"json" => AutoindexFormat::Json,
            b"jsonp" => AutoindexFormat::Jsonp,
            b"xml" => AutoindexFormat::Xml,
            _ => AutoindexFormat::Html,
        };
    }),
    plain!("random_index", |layer, directive| layer.block.autoindex.random = is_on(directive)),
    plain!("msie_padding", |layer, directive| layer.block.msie_padding = is_on(directive)),
    plain!("stub_status", |layer, _directive| layer.block.content = ContentRules::StubStatus),
    plain!("empty_gif", |layer, _directive| layer.block.content = ContentRules::EmptyGif),
    // Of servers.
    plain!("merge_slashes", |layer, directive| layer.rules.merge_slashes = is_on(directive)),
    plain!("ignore_invalid_headers", |layer, directive| {
        layer.rules.ignore_invalid_headers = is_on(directive);
    }),
    plain!("underscores_in_headers", |layer, directive| {
        layer.rules.underscores_in_headers = is_on(directive);
    }),
    plain!("client_header_timeout", |layer, directive| layer.rules.head.timeout = duration(directive)),
    plain!("max_headers", |layer, directive| layer.rules.head.fields = count(directive)),
    plain!("client_header_buffer_size", |layer, directive| {
        layer.rules.first_buffer = size(argument(directive, 0)).unwrap_or_default();
    }),
    plain!("large_client_header_buffers", |layer, directive| {
        let (count, bytes) = (number(argument(directive, 0)), size(argument(directive, 1)));
        layer.rules.buffers = (count.unwrap_or_default(), bytes.unwrap_or_default());
    }),
];

impl Compiler<'_> {
    fn root(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let is_alias = directive.name == b"alias";
        let (name, other) = if is_alias { ("alias", "root") } else { ("root", "alias") };
        if layer.has(other) {
            let what = format!("\"{name}\" directive is duplicate, \"{other}\" directive was specified earlier");
            return Err(self.refused(place, what));
        }
        layer.first(name);
        let alias = match &layer.scope {
            Scope::Location(Pattern::Named(_)) if is_alias => {
                let what = "the \"alias\" directive cannot be used inside the named location";
                return Err(self.refused(place, what.to_owned()));
            }
            Scope::Location(pattern) if is_alias => Some(match pattern {
                Pattern::Expression(..) | Pattern::Named(_) => Alias::Path,
                Pattern::Exact(path) | Pattern::Prefix(path) | Pattern::FirmPrefix(path) => {
                    Alias::Start(path.len() as u32)
                }
            }),
            _ => None,
        };
        let text = argument(directive, 0);
        let contains = |what: &str| text.windows(what.len()).any(|part| part == what.as_bytes());
        for variable in ["document_root", "realpath_root"] {
            if contains(&format!("${variable}")) || contains(&format!("${{{variable}}}")) {
                let what = format!("the ${variable} variable cannot be used in the \"{name}\" directive");
                return Err(self.refused(place, what));
            }
        }
        let text = if is_alias { text } else { text.strip_suffix(b"/").unwrap_or(text) };
        // The root of all is no name.
        let path = if text.is_empty() && argument(directive, 0) == b"/" {
            Value::literal(b"")
        } else {
            self.path_value(text, place)?
        };
        layer.block.root = Root { path, alias };
        Ok(())
    }

    fn index(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let mut names: Vec<Value> = if layer.first("index") { Vec::new() } else { layer.block.index.to_vec() };
        for (at, text) in directive.arguments.iter().enumerate() {
            if text.starts_with(b"/") && at + 1 < directive.arguments.len() {
                let what = "only the last index in \"index\" directive should be absolute";
                self.warn(place, what.to_owned());
            }
            if text.is_empty() {
                return Err(self.refused(place, "index \"\" in \"index\" directive is invalid".to_owned()));
            }
            names.push(self.value(text, place)?);
        }
        layer.block.index = names.into();
        Ok(())
    }

    fn try_files(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let Some((last, tried)) = directive.arguments.split_last() else { return Ok(()) };
        let mut rules = Vec::new();
        for text in tried {
            let (text, is_folder) = match text.strip_suffix(b"/") {
                Some(text) => (text, true),
                None => (text.as_slice(), false),
            };
            rules.push((self.value(text, place)?, is_folder));
        }
        let otherwise = match last.as_slice() {
            [b'=', code @ ..] => match number(code) {
                Ok(code @ 0..=999) => Target::Status(code as u16),
                _ => return Err(self.refused(place, format!("invalid code \"{}\"", told(last)))),
            },
            [b'@', name @ ..] => Target::Named(name.into()),
            text => Target::Path(self.value(text, place)?),
        };
        layer.block.try_files = Some(TryFiles { tried: rules, otherwise }.into());
        Ok(())
    }

    fn error_page(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let invalid = |this: &Self, word: &[u8]| this.refused(place, format!("invalid value \"{}\"", told(word)));
        let Some((uri, words)) = directive.arguments.split_last() else { return Ok(()) };
        let (told_status, statuses) = match words.split_last() {
            Some((word, statuses)) if word.starts_with(b"=") => match (statuses, &word[1..]) {
                ([], _) => return Err(invalid(self, word)),
                (_, []) => (Some(None), statuses),
                (_, code) => match number(code) {
                    Ok(code) => (Some(Some(u16::try_from(code).unwrap_or(u16::MAX))), statuses),
                    Err(_) => return Err(invalid(self, word)),
                },
            },
            _ => (None, words),
        };
        let target = match uri.as_slice() {
            [b'@', name @ ..] => ErrorTarget::Named(name.into()),
            text => ErrorTarget::Value(self.value(text, place)?),
        };
        let mut pages: Vec<ErrorPage> =
            if layer.first("error_page") { Vec::new() } else { layer.block.error_pages.to_vec() };
        for word in statuses {
            let status = match number(word) {
                Ok(499) | Err(_) => return Err(invalid(self, word)),
                Ok(status @ 300..=599) => status as u16,
                Ok(_) => {
                    let what = format!("value \"{}\" must be between 300 and 599", told(word));
                    return Err(self.refused(place, what));
                }
            };
            // Statuses of nginx's own are told as 400.
            let told = if matches!(status, 494..=497) { told_status.or(Some(Some(400))) } else { told_status };
            pages.push(ErrorPage { status, told, target: target.clone() });
        }
        layer.block.error_pages = pages.into();
        Ok(())
    }

    fn add_field(&mut self, layer: &mut Layer, directive: &Directive, trailer: bool) -> Step {
        let place = directive.place;
        let always = match directive.arguments.get(2).map(Vec::as_slice) {
            None => false,
            Some(b"always") => true,
            Some(other) => return Err(self.refused(place, format!("invalid parameter \"{}\"", told(other)))),
        };
        if argument(directive, 0).eq_ignore_ascii_case(b"alt-svc")
            && argument(directive, 1).windows(2).any(|two| two == b"h3")
        {
            let what = "\"Alt-Svc\" offers clients HTTP/3, which nobody speaks here: they try it, and come back to TCP";
            self.warn(place, what.to_owned());
        }
        let value = self.value(argument(directive, 1), place)?;
        let first = layer.first(if trailer { "add_trailer" } else { "add_header" });
        let fields = Arc::make_mut(&mut layer.block.fields);
        let list = if trailer { &mut fields.trailers } else { &mut fields.added };
        if first {
            // Those of the block outside follow when it ends, if they merge.
            list.clear();
        }
        list.push(AddedField { name: argument(directive, 0).into(), value, always });
        Ok(())
    }

    /// Bytes a second, or bytes: a size, or a value that gives one.
    pub(super) fn rate(&mut self, directive: &Directive) -> Step<Value> {
        let text = argument(directive, 0);
        match size(text) {
            Ok(bytes) => Ok(Value::literal(bytes.to_string().as_bytes())),
            Err(_) => self.value(text, directive.place),
        }
    }

    fn symlinks(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let (mut kind, mut from) = (None, None);
        for word in &directive.arguments {
            match word.as_slice() {
                b"off" => kind = Some(SymlinkKind::Followed),
                b"on" => kind = Some(SymlinkKind::Refused),
                b"if_not_owner" => kind = Some(SymlinkKind::OfOwner),
                word => match word.strip_prefix(b"from=") {
                    Some(path) => from = Some(self.value(path, place)?),
                    None => return Err(self.refused(place, format!("invalid parameter \"{}\"", told(word)))),
                },
            }
        }
        let name = told(&directive.name);
        let what = match (kind, &from) {
            (None, _) => format!("\"{name}\" must have \"off\", \"on\" or \"if_not_owner\" parameter"),
            (_, None) if directive.arguments.len() > 1 => {
                let (one, other) = (argument(directive, 0), argument(directive, 1));
                format!("duplicate parameters \"{} {}\"", told(one), told(other))
            }
            (Some(SymlinkKind::Followed), Some(_)) => "\"from=\" cannot be used with \"off\" parameter".to_owned(),
            (Some(kind), _) => {
                layer.block.symlinks = SymlinkRules { kind, from };
                return Ok(());
            }
        };
        Err(self.refused(place, what))
    }

    fn keep_alive(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let read = |at, whole| time(argument(directive, at), whole).map(Duration::from_millis);
        let keepalive = read(0, false).map_err(|_| self.invalid(directive, "invalid value"))?;
        let told = (directive.arguments.len() == 2).then(|| read(1, true)).transpose();
        let told = told.map_err(|_| self.invalid(directive, "invalid value"))?;
        layer.block.connection.keepalive = keepalive;
        layer.block.connection.keepalive_told = told.filter(|told| !told.is_zero());
        Ok(())
    }
}

/// `keepalive_disable`: the words are checked where they are read.
fn keep_alive_disabled(directive: &Directive) -> KeepAliveDisabled {
    let has = |word: &[u8]| directive.arguments.iter().any(|argument| argument.as_slice() == word);
    KeepAliveDisabled { msie6: has(b"msie6"), safari: has(b"safari") }
}

fn inherit(directive: &Directive) -> Inherit {
    match argument(directive, 0).to_ascii_lowercase().as_slice() {
        b"off" => Inherit::Off,
        b"merge" => Inherit::Merge,
        _ => Inherit::On,
    }
}
