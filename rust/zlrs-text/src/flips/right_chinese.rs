use super::Pairs;
pub(super) fn generate(_pairs: &mut Pairs) {}
