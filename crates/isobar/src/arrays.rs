//! Arguments that can be passed as arrays.

use isobar_core::prelude::{ArrayView, ArrayViewMut, DeviceArray, Result, Shape, Source, Target};

/// An array to read: a slice or a vector in C order of shape (nz, ny, nx), an [`ArrayView`] with any strides, or a
/// [`DeviceArray`]; of f32 or f64.
pub trait Input<'a> {
    /// Returns a view of this shape to read.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if a slice has another length.
    fn source(self, shape: Shape) -> Result<Source<'a>>;
}

/// An array to write, and to read if it holds a first guess; the types are those of [`Input`].
pub trait Output<'a> {
    /// Returns a view of this shape to write.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if a slice has another length.
    fn target(self, shape: Shape) -> Result<Target<'a>>;
}

macro_rules! arrays {
    ($($t:ty),*) => {$(
        impl<'a> Input<'a> for &'a [$t] {
            fn source(self, shape: Shape) -> Result<Source<'a>> {
                Ok(ArrayView::c_order(self, shape)?.into())
            }
        }

        impl<'a> Input<'a> for &'a Vec<$t> {
            fn source(self, shape: Shape) -> Result<Source<'a>> {
                self.as_slice().source(shape)
            }
        }

        impl<'a> Input<'a> for ArrayView<'a, $t> {
            fn source(self, _: Shape) -> Result<Source<'a>> {
                Ok(self.into())
            }
        }

        impl<'a> Output<'a> for &'a mut [$t] {
            fn target(self, shape: Shape) -> Result<Target<'a>> {
                Ok(ArrayViewMut::c_order(self, shape)?.into())
            }
        }

        impl<'a> Output<'a> for &'a mut Vec<$t> {
            fn target(self, shape: Shape) -> Result<Target<'a>> {
                self.as_mut_slice().target(shape)
            }
        }

        impl<'a> Output<'a> for ArrayViewMut<'a, $t> {
            fn target(self, _: Shape) -> Result<Target<'a>> {
                Ok(self.into())
            }
        }
    )*};
}
arrays!(f32, f64);

impl<'a> Input<'a> for DeviceArray {
    fn source(self, _: Shape) -> Result<Source<'a>> {
        Ok(self.into())
    }
}

impl<'a> Output<'a> for DeviceArray {
    fn target(self, _: Shape) -> Result<Target<'a>> {
        Ok(self.into())
    }
}
