//! Parts that many pages use.

pub(crate) mod clock;
pub(crate) mod data;
pub(crate) mod dialog;
pub(crate) mod frame;
pub(crate) mod icons;
pub(crate) mod keys;
pub(crate) mod parts;
pub(crate) mod sheet;
pub(crate) mod toast;
