//! What a configuration says, and the handler that does it: those of nginx's phases, or
//! without the feature `phases` the same names, of which there are no values.

#[cfg(not(feature = "phases"))]
mod absent;

#[cfg(not(feature = "phases"))]
pub use absent::{Engine, EngineParts, NewProgram, Program};
#[cfg(feature = "phases")]
pub use configuration::Program;
#[cfg(feature = "phases")]
pub use phases::{Engine, EngineParts, NewProgram};

#[cfg(feature = "phases")]
impl From<phases::PrepareError> for crate::ConfigError {
    fn from(why: phases::PrepareError) -> Self {
        match why {
            phases::PrepareError::Log(why) => why.into(),
            phases::PrepareError::Folder(why) => Self::BodyFolder(why.to_string()),
            phases::PrepareError::Resolver(why) => Self::Helper(why),
        }
    }
}
