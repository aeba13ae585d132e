"""Images: noise removed, missing values imputed, with standard deviations (003, "image "
"processing")."""

from eigengap.images.denoising import denoise_image
from eigengap.images.files.files import read_image, write_image
from eigengap.images.image import Restored
from eigengap.images.inpainting import inpaint_image

__all__ = ["Restored", "denoise_image", "inpaint_image", "read_image", "write_image"]
