//! `load_module`: what modules are for is built in, or not there; nothing is loaded. A
//! configuration names a module because a distribution has it do so, and is refused for
//! none: what it says by a directive that is not there is refused by that directive.

use super::arguments::{argument, told};
use super::{Compiler, Step};
use crate::reader::Directive;

/// Modules whose directives are here, by the names of their files.
const BUILT_IN: [&str; 5] = [
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
    // Something others stand on.
    "ndk_http_module",
];

/// Modules that are known, and whose directives are not here.
const ABSENT: [&str; 28] = [
    "ngx_http_acme_module",
    "ngx_http_auth_pam_module",
    "ngx_http_cache_purge_module",
    "ngx_http_dav_ext_module",
    "ngx_http_echo_module",
    "ngx_http_fancyindex_module",
    "ngx_http_geoip2_module",
    "ngx_http_geoip_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_image_filter_module",
    "ngx_http_js_module",
    "ngx_http_lua_module",
    "ngx_http_modsecurity_module",
    "ngx_http_naxsi_module",
    "ngx_http_perl_module",
    "ngx_http_subs_filter_module",
    "ngx_http_uploadprogress_module",
    "ngx_http_upstream_fair_module",
    "ngx_http_vhost_traffic_status_module",
    "ngx_http_xslt_filter_module",
    "ngx_mail_module",
    "ngx_nchan_module",
    "ngx_otel_module",
    "ngx_rtmp_module",
    "ngx_stream_geoip2_module",
    "ngx_stream_geoip_module",
    "ngx_stream_js_module",
    "ngx_stream_module",
];

impl Compiler<'_> {
    /// A module, where those of `loaded` were named before; it `is_late` behind the
    /// blocks that use modules.
    pub(super) fn load_module(&mut self, directive: &Directive, loaded: &mut Vec<String>, is_late: bool) -> Step {
        let place = directive.place;
        if is_late {
            return Err(self.refused(place, "\"load_module\" directive is specified too late".to_owned()));
        }
        let path = told(argument(directive, 0));
        let file = path.rsplit('/').next().unwrap_or_default();
        let name = file.strip_suffix(".so").unwrap_or(file);
        if loaded.iter().any(|known| known == name) {
            return Err(self.refused(place, format!("module \"{name}\" is already loaded")));
        }
        loaded.push(name.to_owned());
        if BUILT_IN.contains(&name) {
            self.remark("load_module", place, "what the module is for is built in");
        } else if ABSENT.contains(&name) {
            self.warn(
                place,
                format!("module \"{name}\" is not here: where none of its directives is used, it has no effect"),
            );
        } else {
            self.warn(place, format!("nothing is known here of the module in \"{path}\": it has no effect"));
        }
        Ok(())
    }
}
