//! `client_body_temp_path`.

use super::arguments::argument;
use super::layer::Layer;
use super::{Compiler, Step, path_of};
use crate::reader::Directive;
use configuration::program::TempFolderRules;
use features::units::number;

/// Where bodies that are long are kept if nothing is said: as Debian's nginx.
const USUAL: &str = "/var/lib/nginx/body";

/// Digits of a file's name, of which the names of its folders are made.
const DIGITS: u64 = 10;

impl Compiler<'_> {
    /// The folder where nothing is said, which blocks have that are told of no other.
    pub(super) fn usual_temp_path(&mut self) {
        self.program.temp_folders.push(TempFolderRules { path: USUAL.into(), levels: [0; 3] });
    }

    pub(super) fn temp_path(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let mut levels = [0; 3];
        let told = directive.arguments.iter().skip(1).map(|level| number(level).unwrap_or_default());
        if told.clone().sum::<u64>() > DIGITS {
            return Err(self.invalid(directive, "invalid value"));
        }
        for (place, level) in levels.iter_mut().zip(told) {
            *place = u8::try_from(level).unwrap_or_default();
        }
        let rules = TempFolderRules { path: path_of(&self.full_path(argument(directive, 0))), levels };
        let folders = &mut self.program.temp_folders;
        let at = folders.iter().position(|known| *known == rules).unwrap_or_else(|| {
            folders.push(rules);
            folders.len() - 1
        });
        let Ok(at) = u16::try_from(at) else { return Err(self.unsupported(directive.place, "so many folders")) };
        layer.block.body.folder = at;
        Ok(())
    }

    /// Folders that nothing keeps bodies in are not made.
    pub(super) fn keep_used_folders(&mut self) {
        let all = core::mem::take(&mut self.program.temp_folders);
        let kept = &mut self.program.temp_folders;
        for block in &mut self.program.blocks {
            let rules = all.get(usize::from(block.body.folder)).filter(|_| block.reads_bodies());
            block.body.folder = 0;
            let Some(rules) = rules else { continue };
            let at = kept.iter().position(|known| known == rules).unwrap_or_else(|| {
                kept.push(rules.clone());
                kept.len() - 1
            });
            block.body.folder = at as u16;
        }
    }
}
