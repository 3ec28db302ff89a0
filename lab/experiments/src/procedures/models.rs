//! Accept models as arms.

use crate::Failure;
use crate::procedure::Arm;
use sockets::Model;
use std::collections::BTreeMap;

/// All of them, in the order of tables.
pub(crate) const MODELS: [Model; 6] = Model::ALL;

/// Their names.
pub(crate) fn all() -> Vec<String> {
    MODELS.iter().map(|model| model.name().to_owned()).collect()
}

/// Models by their names, at least one.
pub(crate) fn read(table: &str, names: &[String]) -> Result<Vec<Model>, Failure> {
    if names.is_empty() {
        return Err(format!("{table}: name at least one of the models {}", all().join(", ")).into());
    }
    let one = |name: &String| {
        let wrong = || format!("{table}: there is no model {name}; there are {}", all().join(", "));
        name.parse::<Model>().map_err(|_| wrong().into())
    };
    names.iter().map(one).collect()
}

/// An arm for each, left out where `why_not` says so.
pub(crate) fn arms(
    models: &[Model],
    conditions: &BTreeMap<String, String>,
    why_not: impl Fn(Model) -> Option<String>,
) -> Vec<Arm> {
    let arm = |model: &Model| Arm {
        name: model.name().to_owned(),
        conditions: conditions.clone(),
        left_out: why_not(*model).or_else(|| super::crew::missing(*model)),
    };
    models.iter().map(arm).collect()
}
