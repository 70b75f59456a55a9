"""Operations on triangle meshes."""
