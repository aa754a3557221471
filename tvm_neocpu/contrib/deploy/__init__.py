"""What a deployed network costs before it answers: time to the first inference, memory, bytes."""
