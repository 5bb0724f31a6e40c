"""Operations between the layers of a network; `kind` is their face."""
