"""Operations on points."""
